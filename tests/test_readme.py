"""What the README promises about itself."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_ci_runs_the_readmes_test_command():
    readme = (ROOT / "README.md").read_text()
    (command,) = re.findall(r"^ +(python3 .*nox -s tests)$", readme, re.MULTILINE)
    script = (ROOT / ".ci" / "run").read_text()
    (search,) = re.findall(r"grep -m 1 -E '(.*)' README\.md", script)

    found = subprocess.run(
        ["grep", "-m", "1", "-E", search, "README.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == command


@pytest.mark.parametrize(
    "text", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/pull-request.md"]
)
def test_documents_have_no_line_of_more_than_110_characters(text: str):
    lines = [line for line in (ROOT / text).read_text().splitlines() if not line.startswith("|")]
    assert [line for line in lines if len(line) > 110] == []
