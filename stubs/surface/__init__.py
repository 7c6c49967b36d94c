"""What a connector module of a TensorRT-LLM checkout imports, without its other code.

A module that is loaded from a checkout finds the engine here, whatever path of it it asks for:
``tensorrt_llm.logger`` is ``stubs.surface.tensorrt_llm.logger``. What the measured path needs is in
``known.py``, what may do nothing in ``noops.py``. All else is a placeholder, which can be imported,
stand in an annotation and be a base class, and says what is missing when it is used as a value.

None of it is called ``torch`` or ``tensorrt_llm`` outside this package: real ones stay as they are.
"""

from .placeholders import install

install(__name__)
