import pytest

from analysis import scrub
from tests.helpers.own_records import make_record, named_run
from train.record import record
from train.record.record import Failure, Server


def scrubbed(run):
    return scrub.scrubber(scrub.hosts(run), scrub.users(run))(run)


def test_no_name_is_left_and_the_record_loads_again():
    run = named_run()
    run.failure = Failure(
        "connect to owens-ib2 failed: /home/jdoe42/x", host="owens-ib2", log="/home/jdoe42/r/rank-1.log"
    )
    text = record.dumps(scrubbed(run))
    for name in (b"owens", b"osc.edu", b"jdoe42", b"/home", b"/scratch", b"10.3.0", b"the-lab"):
        assert name not in text
    assert record.loads(text, "here").notes[-1] == scrub.SCRUBBED


def test_the_host_of_a_server_is_a_name_too():
    run = make_record()
    run.environment, run.servers = None, [Server(1, "secret.example.org", [0], 1)]
    assert {"secret", "secret.example.org"} <= scrub.hosts(run)


def test_what_measures_stays_as_it_is():
    run = named_run()
    done = scrubbed(run)
    assert [rank.host for rank in done.ranks] == ["host0", "host1"]
    assert done.environment.hosts[0].host == "host0"  # one host, one name
    assert [rank.step_times_s for rank in done.ranks] == [rank.step_times_s for rank in run.ranks]
    assert (done.config_hash, done.job_s, done.started_at) == (run.config_hash, run.job_s, run.started_at)
    kept = done.environment.variables
    assert (kept["SLURM_NNODES"], kept["HOROVOD_CYCLE_TIME"], kept["SLURM_NODELIST"]) == ("2", "20", "scrubbed")
    assert done.command == ["/...", "-m", "train", "results=/...", "hosts=host0:1"]
    assert done.notes[0] == "rank 1 on host1 was slow; see /.../rank-1.log"
    assert done.environment.image == "/.../kit.sif"
    assert done.environment.hosts[0].cpu_model == run.environment.hosts[0].cpu_model


@pytest.mark.parametrize("text", ["3 images/s and/or 4", "https://example.org/a/b", "1/2", "a ~ b", "127.0.0.1"])
def test_what_is_no_path_and_no_name_is_not_touched(text):
    run = make_record()
    run.notes = [text]
    assert scrubbed(run).notes[0] == text


def test_a_name_within_another_word_is_not_touched():
    run = make_record()
    run.ranks[0].host = "node"
    run.notes = ["node: 2 nodes, nodes=2, node-local"]
    assert scrubbed(run).notes[0] == "host1: 2 nodes, nodes=2, node-local"  # host0 is a host of that name
