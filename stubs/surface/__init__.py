"""What a connector module of a TensorRT-LLM checkout imports, without its other code.

A module that is loaded from a checkout finds everything here that is neither of the standard
library nor NumPy: ``tensorrt_llm.logger`` is ``stubs.surface.tensorrt_llm.logger``. What the
measured path needs are modules of this package; what else is asked for is a placeholder, which can
be imported, stand in an annotation and be a base class, and says what is missing when it is called.

None of it is called ``torch`` or ``tensorrt_llm`` outside this package: real ones stay as they are.
"""

from .placeholders import install

install(__name__)
