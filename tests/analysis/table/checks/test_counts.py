import pytest

from analysis.table.checks import counts
from tests.helpers.own_records import make_record, make_rounds, settle
from train.record.record import NodeQuota, Resize, Server


def printed(check, run):
    return [(one.stated, one.follows, one.off) for one in check(settle(run))]


def test_two_nodes_of_two_ranks_are_four_ranks():
    run = make_record(nodes=2, ranks_per_node=2)
    assert not printed(counts.ranks_and_nodes, run)
    run.ranks.pop()
    assert printed(counts.ranks_and_nodes, run) == [("3 ranks", "nodes x ranks per node = 4", -0.25)]
    run = make_record(nodes=2, ranks_per_node=2)
    run.ranks[3].node = 0
    assert printed(counts.ranks_and_nodes, run)[0][:2] == ("rank 3 on node 0", "2 ranks per node")
    run = make_record(nodes=2)
    run.ranks.reverse()
    assert printed(counts.ranks_and_nodes, run)[0][0] == "ranks numbered [1, 0]"


def test_one_process_may_be_all_ranks():
    run = make_record(nodes=4, **{"distribution.backend": "ps_cpu"})
    assert (len(run.ranks), run.workers) == (1, 4)
    assert not printed(counts.ranks_and_nodes, run)
    run.ranks[0].workers = 3
    assert printed(counts.ranks_and_nodes, run) == [("3 ranks", "nodes x ranks per node = 4", -0.25)]
    run = make_record(nodes=2)
    run.config["distribution"]["backend"] = "ps_cpu"
    assert printed(counts.ranks_and_nodes, run) == [("ranks numbered [0, 1]", "0 to 0 are expected", None)]
    run = make_record(nodes=2)
    del run.ranks[1:]
    run.ranks[0].workers = 2  # Horovod's are a process each
    assert printed(counts.ranks_and_nodes, run) == [("ranks numbered [0]", "0 to 1 are expected", None)]


def test_an_elastic_job_has_the_ranks_that_it_ended_with():
    run = make_record(nodes=3)
    run.resizes = [Resize(9.0, 1, 4, 4, 2, "lost c"), Resize(12.0, 1, 8, 2, 3, "c came")]
    assert not printed(counts.ranks_and_nodes, run)
    run.resizes[1].ranks_before = 1
    assert printed(counts.ranks_and_nodes, run)[0][:2] == (
        "1 ranks before the change at 12 s", "2 after the one before",
    )  # fmt: skip


def test_the_global_batch_is_that_of_all_ranks():
    run = make_record(nodes=4, batch_per_rank=8)
    run.config["global_batch"] = 64
    assert printed(counts.batch_and_ranks, run) == [("global batch 64", "8 a rank x 4 ranks = 32", 1.0)]


def test_roles_fit_what_the_arms_do():
    run = make_rounds([(0.5, 0.8, 0.55)])
    assert not printed(counts.roles, run)
    one, two, control = run.config["rounds"]
    control["role"], two["role"] = "in-memory", "control"
    control["reads"] = True
    assert [of[0] for of in printed(counts.roles, run)] == [
        "nodes2- is a control", "nodes2-without-allreduce has its batch in memory",
    ]  # fmt: skip
    one["role"] = two["role"] = "point"
    assert printed(counts.roles, run)[0][:2] == ("0 arms are the base", "one is, or else one is a control")
    one["role"] = two["role"] = "base"
    assert printed(counts.roles, run)[0][0] == "2 arms are the base"
    assert printed(counts.roles, make_record(role="control"))[0][:2] == (
        "the run is a control",
        "it exchanges gradients",
    )


def test_every_backward_pass_counts_in_the_global_batch():
    run = make_record(nodes=4, batch_per_rank=8)
    run.config["distribution"]["backward_passes_per_step"] = 2
    assert printed(counts.batch_and_ranks, run) == [("global batch 32", "8 a rank x 2 passes x 4 ranks = 64", -0.5)]
    run.config["global_batch"] = 64
    assert not printed(counts.batch_and_ranks, run)
    run.config["optimizer"] |= {"learning_rate": 0.1, "learning_rate_scaling": "linear"}
    run.learning_rate = 0.4
    assert printed(counts.learning_rate, run) == [
        ("learning rate 0.4", "0.1 with scaling linear on 4 ranks x 2 passes is 0.8", pytest.approx(-0.5))
    ]


def test_the_arms_of_rounds_make_the_passes_of_the_job():
    run = make_rounds([(0.5, 0.8, 0.55)])
    run.config["distribution"]["backward_passes_per_step"] = 2
    run.config["global_batch"] *= 2
    arms = run.config["rounds"]
    assert printed(counts.batch_and_ranks, run)[0][:2] == (
        "2 backward passes a step",
        f"1 in the arm {arms[0]['name']}",
    )
    for arm in arms:
        arm["backward_passes_per_step"] = 2
    assert not printed(counts.batch_and_ranks, run)


def test_the_learning_rate_in_force_is_the_configured_one_scaled_with_the_ranks():
    run = make_record(nodes=4)
    run.config["optimizer"] |= {"learning_rate": 0.1, "learning_rate_scaling": "sqrt"}
    run.learning_rate = 0.2  # 0.1 x sqrt 4
    assert not printed(counts.learning_rate, run)
    run.config["optimizer"]["learning_rate_scaling"] = "linear"
    assert printed(counts.learning_rate, run) == [
        ("learning rate 0.2", "0.1 with scaling linear on 4 ranks is 0.4", pytest.approx(-0.5))
    ]
    run.learning_rate = None  # a sweep of allreduces trains nothing
    assert not printed(counts.learning_rate, run)


@pytest.mark.parametrize(("key", "value"), [("nodes", 3), ("batch_per_rank", 9)])
def test_the_largest_arm_of_rounds_is_the_job(key, value):
    run = make_rounds([(0.5, 0.8, 0.55)])
    assert not printed(counts.batch_and_ranks, run)
    for arm in run.config["rounds"]:
        arm[key] = value if arm["nodes"] == 2 else arm[key]
    assert printed(counts.batch_and_ranks, run)


def test_all_ranks_make_the_steps_that_were_asked_for():
    run = make_record(nodes=2, steps=10)
    run.ranks[1].step_times_s = run.ranks[1].step_times_s[:5]
    assert printed(counts.step_counts, run) == [("rank 1: 5 step_times_s", "rank 0: 10", -0.5)]
    run = make_record(nodes=2, steps=10)
    for rank in run.ranks:
        rank.step_times_s.pop()
    assert printed(counts.step_counts, run)[0][:2] == ("9 timed steps", "measure.timed_steps=10")
    run = make_record(losses=[2.0, 1.0])
    run.losses.append(0.5)
    assert printed(counts.step_counts, run)[0][:2] == ("3 losses", "2 timed steps")


def test_a_configuration_that_was_changed_has_another_hash():
    run = settle(make_record())
    assert not list(counts.config_hash(run))
    run.config["results"] = "elsewhere"  # changes no measurement
    assert not list(counts.config_hash(run))
    run.config["precision"] = "bf16"
    (result,) = counts.config_hash(run)
    assert result.stated == f"config_hash {run.config_hash[:12]}"
    assert result.follows.startswith("the configuration has the hash ")


def test_what_was_swept_is_in_the_configuration():
    run = make_record(nodes=2, swept={"model": "resnet50", "nodes": 4})
    assert printed(counts.swept_values, run)[0][:2] == ("swept: nodes=4", "the configuration has nodes=2")


def test_cores_that_ranks_share_without_saying_so():
    run = make_record(nodes=2)
    run.ranks[1].cores = [0]
    assert printed(counts.shared_cores, run)[0][:2] == ("cores_shared false", "2 ranks are on core 0 of host0")
    run.cores_shared = True
    assert not printed(counts.shared_cores, run)
    run.cores_shared, run.config["system"]["cpus_per_node"] = False, 0.4
    assert not printed(counts.shared_cores, run)


def test_a_server_beside_the_ranks_shares_no_core_and_was_asked_for():
    run = make_record(nodes=2, distribution={"backend": "ps", "servers": 1, "servers_on": "nodes"})
    assert printed(counts.servers, run)[0][:2] == ("0 servers beside the ranks", "distribution.servers=1 on nodes")
    run.servers = [Server(2, run.ranks[0].host, [7], 1)]
    assert not printed(counts.servers, run)
    assert not printed(counts.shared_cores, run)
    run.servers[0].cores = run.ranks[0].cores
    assert "2 processes are on core" in printed(counts.shared_cores, run)[0][1]
    run.config["distribution"]["servers_on"] = "workers"
    assert printed(counts.servers, run)[0][:2] == ("1 servers beside the ranks", "distribution.servers=0 on nodes")
    run.status, run.servers = "failed", []
    assert not printed(counts.servers, run)


def test_a_node_is_held_to_the_quota_that_was_asked_for():
    run = make_record()
    run.config["system"]["cpus_per_node"] = 0.4
    run.node_quotas = [NodeQuota(0, 0.4, 0.1, 50, 20, 1.0, "cgroup")]
    assert not printed(counts.quotas, run)
    run.node_quotas = [NodeQuota(0, 0.5, 0.4, 50, 60, 1.0, "cgroup")]
    result = printed(counts.quotas, run)
    assert [one[:2] for one in result] == [
        ("node 0: 0.5 cores", "system.cpus_per_node=0.4"), ("node 0: 60 periods throttled", "50 in all"),
        ("node 0: 50 periods of 0.4 s", "the job took 16 s"),
    ]  # fmt: skip
