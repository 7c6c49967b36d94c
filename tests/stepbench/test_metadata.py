import json

from harness.system.fingerprint import fingerprint
from stepbench import __version__
from stepbench.metadata import run_metadata


def test_a_measurement_notes_the_machine_and_what_it_is_made_of():
    found = run_metadata(None)

    fields = json.loads(str(found["stepbench_machine_fields"]))
    assert found["stepbench_machine"] == fingerprint(fields)
    assert set(fields) == {
        "architecture",
        "cpu_vendor",
        "cpu_family",
        "cpu_model",
        "cpu_stepping",
        "cpu_model_name",
        "caches",
        "logical_cpus",
        "cores",
        "memory_gib",
    }
    assert found["stepbench_version"] == __version__
    # pyperf takes no other types, and no empty text.
    assert all(isinstance(value, str | int | float) and value != "" for value in found.values())


def test_the_core_measured_on_does_not_change_the_machine():
    assert run_metadata(0)["stepbench_machine"] == run_metadata(None)["stepbench_machine"]
