"""An asv environment: the Python that runs asv, with the arm of a commit checked out beside it.

``asv continuous`` takes no environment of the type ``existing``, and its virtual environments would
be made from the network. asv loads this file as a plugin, named in ``asv.conf.json``.
"""

import os
import sys
from pathlib import Path
from typing import Any

from asv import util
from asv.environment import Environment

# Where a benchmark finds the job of the commit that is checked out.
JOB = "STEPBENCH_PEER_JOB"


class ThisPython(Environment):  # type: ignore[misc]
    """Installs nothing: a commit is its files, which asv checks out."""

    tool_name = "this-python"

    def __init__(self, conf: Any, python: str, requirements: Any, env_vars: Any) -> None:  # noqa: ANN401
        # The constructor below asks for the environment's name, which is made of these.
        self._python, self._requirements = python, requirements
        super().__init__(conf, python, requirements, env_vars)

    @classmethod
    def matches(cls, python: str) -> bool:  # noqa: ARG003
        """Return that it takes every Python specifier, for there is one Python only."""
        return True

    def check_presence(self) -> bool:
        """Return that nothing has to be made, besides a folder for asv's notes."""
        Path(self._path).mkdir(parents=True, exist_ok=True)
        return True

    def run(self, args: list[str], **options: Any) -> Any:  # noqa: ANN401
        """Run Python; the arguments and what is returned are those of asv's environments."""
        env = dict(options.pop("env", os.environ))
        env[JOB] = str(Path(self._build_root, "job.json"))
        # asv drops the one and takes the other in its place.
        env["ASV_PYTHONPATH"] = env.get("PYTHONPATH", "")
        options["env"] = env
        return util.check_output([sys.executable, *args], **options)
