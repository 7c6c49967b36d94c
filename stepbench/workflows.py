"""What ``stepbench init`` writes for a project's CI."""

from __future__ import annotations

GITHUB_FILE = ".github/workflows/stepbench.yml"
GITHUB = """\
# The gate of {subjects}: outputs, exact work, growth and time against the base of the pull request.
name: stepbench

on: pull_request

permissions:
  contents: read

jobs:
  gate:
    runs-on: ubuntu-latest
    timeout-minutes: 30
    steps:
      - uses: actions/checkout@v6
        with:
          fetch-depth: 0 # The base has to be there.
      - uses: actions/setup-python@v6
        with:
          python-version: "{python}"
      - run: python -m pip install stepbench .
      # Exit code 3 is too noisy to say: a warning, and no pass.
      - name: Gate
        env:
          BASE: origin/${{{{ github.base_ref }}}}
        run: |
          code=0
          stepbench gate --base "$BASE" -o results/gate.json || code=$?
          if [ "$code" -eq 3 ]; then
            echo "::warning title=stepbench gate::Inconclusive: too noisy to say. Run it again."
            code=0
          fi
          exit "$code"
      - uses: actions/upload-artifact@v6
        if: ${{{{ !cancelled() }}}}
        with:
          name: stepbench
          path: results
"""

GITLAB = """\
# Put this into .gitlab-ci.yml:
stepbench:
  image: python:{python}
  rules:
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
  variables:
    GIT_DEPTH: "0"
  script:
    - python -m pip install stepbench .
    - git fetch origin "$CI_MERGE_REQUEST_TARGET_BRANCH_NAME"
    - stepbench gate --base FETCH_HEAD -o gate.json
  allow_failure:
    exit_codes: 3 # Too noisy to say.
  artifacts:
    when: always
    paths: [gate.json]
"""
