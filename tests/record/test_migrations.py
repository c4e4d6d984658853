import pytest

from record import migrations


def test_version_4_called_rank_groups_worlds():
    arms = [{"name": "a", "world": 1}, {"name": "b"}]
    fields = {"config": {"worlds": [{"ranks": 2}], "worlds_at_once": True, "rounds": arms}}
    assert migrations.migrate(fields, 4)["config"] == {
        "rank_groups": [{"ranks": 2}], "rank_groups_at_once": True,
        "rounds": [{"name": "a", "rank_group": 1}, {"name": "b"}],
    }  # fmt: skip
    assert migrations.migrate({"config": {"rounds": None}}, 4) == {"config": {"rounds": None}}


def test_elastic_training_of_version_5_is_refused_if_its_ranks_changed():
    with pytest.raises(LookupError, match="elastic training"):
        migrations.migrate({"config": {}, "resizes": [{"at_s": 7.0}]}, 5)
    assert migrations.migrate({"config": {}, "resizes": []}, 5) == {"config": {}}
