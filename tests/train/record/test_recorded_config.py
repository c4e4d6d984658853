import hashlib
import json
import math

import pytest

from train.record import migrations
from train.record.recorded_config import scaled_learning_rate, values_hash


def test_learning_rates_follow_the_rule():
    assert scaled_learning_rate(0.1, "none", 8) == pytest.approx(0.1)
    assert scaled_learning_rate(0.1, "linear", 8) == pytest.approx(0.8)
    assert scaled_learning_rate(0.1, "sqrt", 8) == pytest.approx(0.1 * math.sqrt(8))


def test_a_key_that_was_renamed_keeps_its_hash():
    fields = {"config": {"system": {"cpus_per_node": 0.2}, "measure": {"control": "all"}}}
    first = hashlib.sha256(json.dumps({"measure": {}, "system": {"cpus_per_node": 0.2}}).encode()).hexdigest()
    config = migrations.migrate(fields, 5)["config"]
    assert config == {"system": {"cpu_quota_per_node": 0.2}, "measure": {"controls": "all"}}
    assert values_hash(config) == first
