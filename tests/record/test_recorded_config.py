import hashlib
import json

from record import migrations
from record.recorded_config import values_hash


def test_a_key_that_was_renamed_keeps_its_hash():
    fields = {"config": {"system": {"cpus_per_node": 0.2}, "measure": {"control": "all"}}}
    first = hashlib.sha256(json.dumps({"measure": {}, "system": {"cpus_per_node": 0.2}}).encode()).hexdigest()
    config = migrations.migrate(fields, 5)["config"]
    assert config == {"system": {"cpu_quota_per_node": 0.2}, "measure": {"controls": "all"}}
    assert values_hash(config) == first
