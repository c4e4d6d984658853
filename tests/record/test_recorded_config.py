import hashlib
import json

import msgspec
import pytest

from record import migrations, recorded_config
from record.recorded_config import values_hash


def test_a_key_that_was_renamed_keeps_its_hash():
    fields = {"config": {"system": {"cpus_per_node": 0.2}, "measure": {"control": "all"}}}
    first = hashlib.sha256(json.dumps({"measure": {}, "system": {"cpus_per_node": 0.2}}).encode()).hexdigest()
    config = migrations.migrate(fields, 5)["config"]
    assert config == {"system": {"cpu_quota_per_node": 0.2}, "measure": {"controls": "all"}}
    assert values_hash(config) == first


@pytest.mark.parametrize(("command", "batches"), [("run", {}), ("run {global_batch}", {"global_batch": 8})])
def test_a_record_of_a_program_keeps_only_what_a_program_uses(command, batches):
    values = {"program": {"command": command}, "nodes": 2, "global_batch": 8, "rounds_end_s": 5}
    values |= dict.fromkeys(("model", "dataset", "optimizer", "precision", "weights", "assumed", "allreduce_sweep"))
    joins = {"backend": "program", "controller": "", "allreduce": True}
    expected = {"program": {"command": command}, "nodes": 2, "distribution": joins, **batches}
    assert recorded_config.recorded(values) == expected


def test_a_record_of_training_keeps_only_what_it_uses():
    read = {"data_dir": "/d", "on_damaged": "fail", "augmentation": None}
    tuned, servers = {"cycle_time_ms": 5, "fusion_threshold_bytes": 0}, {"servers": 1, "servers_on": "nodes"}
    unused = {**tuned, **servers, "timeline": False, "commit_steps": 1}
    nothing = {"dataset": {"files": False}, "distribution": {"backend": "horovod", "autotune": True}}
    values = {"dataset": nothing["dataset"] | read, "distribution": nothing["distribution"] | unused}
    assert recorded_config.recorded(values | {"program": None, "rounds_end_s": 5}) == nothing
    distribution = {"backend": "ps", "autotune": False, "timeline": True, **tuned, **servers}
    everything = {"dataset": {"files": True, **read}, "distribution": distribution}
    assert recorded_config.recorded(everything) == everything


def test_an_arm_has_what_the_first_records_of_rounds_mean():
    arm = msgspec.convert({"name": "a", "nodes": 1, "ranks": 2, "batch_per_rank": 4}, recorded_config.RoundArm)
    assert arm == recorded_config.RoundArm("a", 1, 2, 4, True, None, "point", {}, 0, None, False, 1)


def test_a_step_takes_a_batch_for_each_backward_pass():
    for settings, images in (({}, 4), ({"backward_passes_per_step": 3}, 12)):
        assert recorded_config.step_batch({"batch_per_rank": 4, "distribution": settings}) == images
        assert recorded_config.arm_step_batch({"batch_per_rank": 4, **settings}) == images


def test_nodes_share_the_machine_of_a_launcher_that_starts_them_there():
    launchers = [{"name": "ssh"}, {"name": "local"}, {"name": "emulated"}, {"name": "local", "starts": "over_ssh"}]
    shared = [recorded_config.nodes_share_machine({"launcher": launcher}) for launcher in launchers]
    assert shared == [False, True, True, False]


@pytest.mark.parametrize(
    ("key", "allowed", "refused"),
    [
        ("model.name", ["", "m" * 1000], ["m" * 1001, 1]),
        ("model.image_size", [0, 1_000_000], [-1, 1_000_001]),
        ("model.parameters", [0, 2**53], [-1, 2**53 + 1]),
        ("distribution.backward_passes_per_step", [1, 1_000_000], [0, 1_000_001]),
        ("distribution.cycle_time_ms", [0.0, 1e15, None], [-1e-9, 1.1e15]),
        ("launcher.cores_fraction", [0.01, 1], [0, 1.01]),
        ("system.cpu_quota_per_node", [1e-6, 1e6], [9e-7, 1.1e6]),
        ("seed", [-(2**53), 2**53], [-(2**53) - 1, 2**53 + 1]),
    ],
)
def test_a_value_that_is_out_of_its_range_is_refused_with_its_key(key, allowed, refused):
    section, _, name = key.rpartition(".")

    def check(value):
        recorded_config.check({section: {name: value}} if section else {name: value})

    for value in allowed:
        check(value)
    for value in refused:
        with pytest.raises(msgspec.ValidationError, match=rf"`\$\.{key}`"):
            check(value)
