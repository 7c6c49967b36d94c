"""What holds for all tests."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

# Examples are checked for what they give, never for how long they take.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def no_repository_around_temporary_folders(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """They may lie inside this project's clone, which git would take for theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path_factory.getbasetemp()))
        yield
