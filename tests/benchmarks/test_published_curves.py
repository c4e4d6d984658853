import json

from benchmarks import published_curves


def _log(*events):
    lines = []
    for time_s, key, value, count in events:
        metadata = {} if count is None else {"epoch_num": count}
        event = {"time_ms": 1000 * time_s, "key": key, "value": value, "metadata": metadata}
        lines.append(f"0: :::MLLOG {json.dumps(event)}")
    return "\n".join(lines)


def _epochs(epoch_s, count=3):
    """Return a log of epochs with 5 s of evaluation after each; the first takes 100 s longer."""
    events, time = [(0, "global_batch_size", 512, None), (0, "train_samples", 1000, None)], 0.0
    for epoch in range(count):
        events.append((time, "epoch_start", None, epoch))
        time += epoch_s + 100 * (epoch == 0)
        events += [(time, "epoch_stop", None, epoch), (time, "eval_start", None, epoch)]
        time += 5
        events.append((time, "eval_stop", None, epoch))
    return _log(*events)


def test_epochs_but_the_first_over_the_time_without_evaluations():
    # Two epochs from 115 to 145 s, with 5 s of evaluation between them: 25 s.
    assert published_curves.mlperf_rates(_epochs(12.5)) == {"batch": 512, "samples": 1000, "epochs/s": 2 / 25}


def test_samples_between_evaluations_without_those_that_are_marked():
    marked = [(100, "eval_accuracy", 0.3, 1000), (150, "eval_start", None, 2000), (160, "eval_stop", None, 2000)]
    last = (160, "eval_accuracy", 0.4, 2000)
    assert published_curves.mlperf_rates(_log(*marked, last)) == {"samples/s between evaluations": 1000 / 50}
    assert published_curves.mlperf_rates(_log(marked[0], last)) == {"samples/s with evaluations": 1000 / 60}


def test_sixteen_nodes_of_four_gpus_are_64_and_a_system_counts_once(tmp_path):
    for clone, sizes in (("training_results_v1.0", (1, 16)), ("training_results_v1.1", (1,))):
        for nodes in sizes:
            system = f"Lab/results/{nodes}xnode/resnet"
            described = {"division": "closed", "number_of_nodes": nodes, "accelerators_per_node": "4"}
            described |= {"accelerator_model_name": "NVIDIA A100", "host_processor_model_name": "EPYC"}
            folder = tmp_path / clone / system
            folder.mkdir(parents=True)
            (folder / "result_0.txt").write_text(_epochs(100 / nodes))
            (tmp_path / clone / "Lab/systems").mkdir(exist_ok=True)
            (tmp_path / clone / f"Lab/systems/{nodes}xnode.json").write_text(json.dumps(described))
    rows = [*published_curves.mlperf([*tmp_path.iterdir()])]
    assert [(row["ranks"], row["batch_per_rank"], row["value"], row["unit"]) for row in rows] == [
        (4, 128, "10", "samples/s"), (64, 8, "160", "samples/s"),
    ]  # fmt: skip
    assert {row["run"] for row in rows} == {"Lab 1xnode, v1.0"}
