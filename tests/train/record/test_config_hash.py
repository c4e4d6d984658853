from train.record import config_hash


def test_only_what_changes_a_measurement_is_hashed():
    values = {"nodes": 2, "results": "here", "model": {"name": "vgg16", "parameters": 1}, "allreduce_sweep": None}
    same = values | {"results": "there", "model": {"name": "vgg16", "parameters": 2}}
    assert config_hash.values_hash(values) == config_hash.values_hash(same)
    assert config_hash.values_hash(values) != config_hash.values_hash(values | {"nodes": 4})
    assert config_hash.values_hash(values) != config_hash.values_hash(
        values | {"model": {"name": "vgg19", "parameters": 1}}
    )


def test_a_sweep_of_allreduces_uses_no_model():
    values = {"nodes": 2, "model": {"name": "vgg16"}, "allreduce_sweep": {"max_timed": 9}}
    assert config_hash.values_hash(values) == config_hash.values_hash(values | {"model": {"name": "vgg19"}})
