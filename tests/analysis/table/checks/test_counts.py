from copy import deepcopy

import pytest

from analysis.table.checks import counts
from tests.analysis.table.checks.edits import edited, messages
from tests.helpers.run_records import as_sweep, make_record, make_rounds, update_derived
from train.record.record import AllreduceTimes, NodeQuota, Resize, Server


def sweep():
    return update_derived(as_sweep(make_record(nodes=2), SWEEP_TIMES))


def recorded(*args, make=make_record, **run):
    return lambda: update_derived(make(*args, **deepcopy(run)))


ROUNDS = recorded([(0.5, 0.8, 0.55)], make=make_rounds)
TWO, FOUR = recorded(nodes=2, steps=10), recorded(nodes=4, batch_per_rank=8)
ONE_PROCESS = recorded(nodes=4, **{"distribution.backend": "ps_cpu"})
SWEEP_TIMES = {1024: [[0.1] * 3] * 2, 2048: [[0.2] * 3] * 2}
PASSES = "config.distribution.backward_passes_per_step"
ELASTIC = [Resize(9.0, 1, 4, 4, 2, "lost c"), Resize(12.0, 1, 8, 2, 3, "c came")]
SERVER = Server(2, "host0", [7], 1)
WITH_SERVER = recorded(nodes=2, distribution={"backend": "ps", "servers": 1, "servers_on": "nodes"})
LINEAR = {"learning_rate": 0.1, "learning_rate_scaling": "linear"}
SQRT = LINEAR | {"learning_rate_scaling": "sqrt"}
# A check, a record, changes that contradict nothing, changes that do, and the messages.
CASES = [
    (counts.ranks_and_nodes, recorded(nodes=2, ranks_per_node=2), {}, {"ranks": lambda ranks: ranks[:3]},
     ["3 ranks, but nodes x ranks per node = 4 (-0.25)"]),
    (counts.ranks_and_nodes, recorded(nodes=2, ranks_per_node=2), {}, {"ranks.3.node": 0},
     ["rank 3 on node 0, but 2 ranks per node"]),
    (counts.ranks_and_nodes, TWO, {}, {"ranks": lambda ranks: ranks[::-1]},
     ["ranks numbered [1, 0], but 0 to 1 are expected"]),
    (counts.ranks_and_nodes, ONE_PROCESS, {}, {"ranks.0.workers": 3},
     ["3 ranks, but nodes x ranks per node = 4 (-0.25)"]),
    (counts.ranks_and_nodes, TWO, {}, {"config.distribution.backend": "ps_cpu"},
     ["ranks numbered [0, 1], but 0 to 0 are expected"]),
    (counts.ranks_and_nodes, TWO, {}, {"ranks": lambda ranks: ranks[:1], "ranks.0.workers": 2},
     ["ranks numbered [0], but 0 to 1 are expected"]),
    (counts.ranks_and_nodes, recorded(nodes=3), {"resizes": ELASTIC}, {"resizes.1.ranks_before": 1},
     ["1 ranks before the change at 12 s, but 2 after the one before"]),
    (counts.batch_and_ranks, FOUR, {}, {"config.global_batch": 64},
     ["global batch 64, but 8 a rank x 4 ranks = 32 (+1)"]),
    (counts.batch_and_ranks, FOUR, {PASSES: 2, "config.global_batch": 64}, {"config.global_batch": 32},
     ["global batch 32, but 8 a rank x 2 passes x 4 ranks = 64 (-0.5)"]),
    (counts.batch_and_ranks, ROUNDS, {}, {f"config.rounds.{index}.nodes": 3 for index in (1, 2)},
     ["2 nodes, but 3 in the largest arm of the rounds"]),
    (counts.batch_and_ranks, ROUNDS, {}, {f"config.rounds.{index}.batch_per_rank": 9 for index in (1, 2)},
     ["batch 8 a rank, but 9 in the largest arm"]),
    (counts.batch_and_ranks, ROUNDS,
     {PASSES: 2, "config.global_batch": 32,
      **{f"config.rounds.{index}.backward_passes_per_step": 2 for index in range(3)}},
     {"config.rounds.0.backward_passes_per_step": 1}, ["2 backward passes a step, but 1 in the arm nodes1-"]),
    (counts.roles, ROUNDS, {},
     {"config.rounds.1.role": "control", "config.rounds.2.role": "in-memory", "config.rounds.2.reads": True},
     ["nodes2- is a control, but it exchanges gradients",
      "nodes2-without-allreduce has its batch in memory, but it reads images"]),
    (counts.roles, ROUNDS, {}, {f"config.rounds.{index}.role": "point" for index in range(3)},
     ["0 arms are the base, but one is, or else one is a control"]),
    (counts.roles, ROUNDS, {}, {"config.rounds.1.role": "base"},
     ["2 arms are the base, but one is, or else one is a control"]),
    (counts.roles, TWO, {}, {"role": "control"}, ["the run is a control, but it exchanges gradients"]),
    # 0.1 x sqrt 4
    (counts.learning_rate, FOUR, {"config.optimizer": SQRT, "learning_rate": 0.2},
     {"config.optimizer.learning_rate_scaling": "linear"},
     ["learning rate 0.2, but 0.1 with scaling linear on 4 ranks is 0.4 (-0.5)"]),
    (counts.learning_rate, FOUR, {PASSES: 2, "config.optimizer": LINEAR, "learning_rate": 0.8},
     {"learning_rate": 0.4},
     ["learning rate 0.4, but 0.1 with scaling linear on 4 ranks x 2 passes is 0.8 (-0.5)"]),
    (counts.learning_rate, TWO, {"learning_rate": None}, {"learning_rate": 0.02},
     ["learning rate 0.02, but 0.01 with scaling none on 2 ranks is 0.01 (+1)"]),
    (counts.step_counts, TWO, {}, {"ranks.1.step_times_s": [0.5] * 5},
     ["rank 1: 5 step_times_s, but rank 0: 10 (-0.5)"]),
    (counts.step_counts, TWO, {}, {f"ranks.{rank}.step_times_s": [0.5] * 5 for rank in (0, 1)},
     ["5 timed steps, but measure.timed_steps=10 (-0.5)"]),
    (counts.step_counts, recorded(losses=[2.0, 1.0]), {}, {"losses": [2.0, 1.0, 0.5]},
     ["3 losses, but 2 timed steps (+0.5)"]),
    (counts.step_counts, sweep, {}, {"ranks.1.allreduces.0.times_s": [0.1] * 2},
     ["2 allreduces of 1024 bytes on a rank, but 3 of 1024 bytes on another (-0.333)"]),
    (counts.step_counts, sweep, {},
     {f"ranks.{rank}.allreduces.1": AllreduceTimes(2048, [0.2] * 3, 1) for rank in (0, 1)},
     ["round 0: 0 entries of 2048 bytes, but each size once a round",
      "round 1: 0 entries of 1024 bytes, but each size once a round"]),
    (counts.swept_values, recorded(nodes=2, swept={"model": "resnet50", "nodes": 2}), {}, {"swept.nodes": 4},
     ["swept: nodes=4, but the configuration has nodes=2"]),
    (counts.shared_cores, TWO, {"ranks.1.cores": [0], "cores_shared": True}, {"cores_shared": False},
     ["cores_shared false, but 2 ranks are on core 0 of host0"]),
    (counts.shared_cores, TWO, {"ranks.1.cores": [0], "config.system.cpus_per_node": 0.4},
     {"config.system.cpus_per_node": None}, ["cores_shared false, but 2 ranks are on core 0 of host0"]),
    (counts.shared_cores, WITH_SERVER, {"servers": [SERVER]}, {"servers.0.cores": [0]},
     ["cores_shared false, but 2 processes are on core 0 of host0"]),
    (counts.servers, WITH_SERVER, {"servers": [SERVER]}, {"servers": []},
     ["0 servers beside the ranks, but distribution.servers=1 on nodes"]),
    (counts.servers, WITH_SERVER, {"servers": [SERVER]}, {"config.distribution.servers_on": "workers"},
     ["1 servers beside the ranks, but distribution.servers=0 on nodes"]),
    (counts.servers, WITH_SERVER, {"status": "failed"}, {"status": "complete"},
     ["0 servers beside the ranks, but distribution.servers=1 on nodes"]),
    (counts.quotas, recorded(**{"system.cpus_per_node": 0.4}),
     {"node_quotas": [NodeQuota(0, 0.4, 0.1, 50, 20, 1.0, "cgroup")]},
     {"node_quotas": [NodeQuota(0, 0.5, 0.4, 50, 60, 1.0, "cgroup")]},
     ["node 0: 0.5 cores, but system.cpus_per_node=0.4 (+0.25)",
      "node 0: 60 periods throttled, but 50 in all (+0.2)",
      "node 0: 50 periods of 0.4 s, but the job took 16 s (+0.25)"]),
]  # fmt: skip


@pytest.mark.parametrize(("check", "record", "clean", "change", "expected"), CASES, ids=[case[-1][0] for case in CASES])
def test_a_contradiction_is_found_and_none_is_alleged_before(check, record, clean, change, expected):
    run = edited(record(), clean)
    assert messages(check, run) == []
    assert messages(check, edited(run, change)) == expected


def test_a_configuration_that_was_changed_has_another_hash():
    run = edited(update_derived(make_record()), {"config.results": "elsewhere"})  # changes no measurement
    assert not messages(counts.config_hash, run)
    (result,) = counts.config_hash(edited(run, {"config.precision": "bf16"}))
    assert result.stated == f"config_hash {run.config_hash[:12]}"
    assert result.follows.startswith("the configuration has the hash ")
