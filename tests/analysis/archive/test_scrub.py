from pathlib import Path

import pytest

from analysis.archive import scrub
from analysis.archive.scrub import Scrubber
from analysis.verify.remade import SCRUBBED
from record import schema as record
from record.schema import Failure, ProgramFacts, Server
from tests.helpers.run_records import make_record, run_with_names


def scrubbed(run):
    return Scrubber(scrub.hosts(run), scrub.users(run)).record(run)


def test_no_name_is_left_and_the_record_loads_again():
    run = run_with_names()
    text = "connect to owens-ib2 failed: /home/jdoe42/x"
    run.failure = Failure(text, host="owens-ib2", log="/home/jdoe42/r/rank-1.log")
    run.program = ProgramFacts(["/home/jdoe42/lulesh"], {"/data/smith/lulesh": "0" * 64}, "by Smith", [], 0)
    text = record.dumps(scrubbed(run))
    for name in (b"owens", b"osc.edu", b"jdoe42", b"/scratch", b"10.3.0", b"the-lab", b"mith", b"lulesh"):
        assert name not in text
    assert record.loads(text, "here").notes[-1] == SCRUBBED


def test_the_host_of_a_server_is_a_name_too():
    run = make_record()
    run.environment, run.servers = None, [Server(1, "secret.example.org", [0], 1)]
    assert {"secret", "secret.example.org"} <= scrub.hosts(run)


def test_measurements_stay_as_they_are():
    run = run_with_names()
    copy = scrubbed(run)
    assert [rank.host for rank in copy.ranks] == ["host0", "host1"]
    assert copy.environment.hosts[0].host == "host0"  # one host, one name
    assert [rank.step_times_s for rank in copy.ranks] == [rank.step_times_s for rank in run.ranks]
    assert (copy.config_hash, copy.job_s, copy.started_at) == (run.config_hash, run.job_s, run.started_at)
    env = copy.environment.variables
    assert (env["SLURM_NNODES"], env["HOROVOD_CYCLE_TIME"], env["SLURM_NODELIST"]) == ("2", "20", "scrubbed")
    assert copy.command == ["/home/user/kit/.venv/bin/python", "-m", "train", "results=scrubbed", "hosts=host0:1"]
    assert copy.notes[0] == "rank 1 on host1 was slow; see /home/user/kit/rank-1.log"
    assert copy.environment.hosts[0].cpu_model == run.environment.hosts[0].cpu_model


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3 images/s and/or 4.5 %, 127.0.0.1", "3 images/s and/or 4.5 %, 127.0.0.1"),
        # Known names as parts of words, in any case; what is no word of the kit.
        ("jdoe42_job, JDOE42", "user_job, user"),
        ("OWENS-IB2: owens-ib.osc.edu, osc.edu, jdoe421", "host1: host0, scrubbed, scrubbed"),
        ("from fe80::1%eth0 and [2001:db8::10]:22", "from scrubbed and [scrubbed]scrubbed"),
        ("10.0.0.3, tcp://10.0.0.3:22, aa:bb:cc:dd:ee:0f", "scrubbed, scrubbed, scrubbed"),
        ("write to j.doe+x@cs.ohio.edu.", "write to scrubbed"),
        ("the professor of /data/professor, nodes2", "the scrubbed of scrubbed, nodes2"),
        ("/opt/smith/libmpi.so.40.30.4, rank 1: /smith/rank-1.log", "/.../libmpi.so.40.30.4, rank 1: /.../rank-1.log"),
        (SCRUBBED, SCRUBBED),
    ],
)
def test_names_addresses_and_other_words_in_a_text(text, expected):
    run = run_with_names()
    run.notes = [text]
    assert scrubbed(run).notes[0] == expected


def test_a_name_within_another_word_is_not_taken_for_it():
    run = make_record()
    run.ranks[0].host = "own"
    run.notes = ["own: shown, knowledge"]
    assert scrubbed(run).notes[0] == "host1: shown, scrubbed"  # host0 is a host of that name


JOB = {  # what a record has, and what is left of it
    "variables": {
        "SLURM_JOB_NAME": ("secret-thesis", "scrubbed"), "SLURM_JOB_QOS": ("boss", "scrubbed"),
        "SLURM_JOB_PARTITION": ("lab-gpu", "partition0"), "SLURM_JOB_UID": ("20042", "scrubbed"),
        "SLURM_JOB_ID": ("777", "scrubbed"), "SLURM_NNODES": ("2", "2"), "SLURM_JOB_NUM_NODES": ("2", "2"),
    },
    "tracking": {
        "name": ("wandb", "wandb"), "project": ("secret", "scrubbed"), "entity": ("lab", "scrubbed"),
        "sync": (False, False), "tags": (["thesis"], ["scrubbed"]), "notes": ("for the boss", "scrubbed"),
        "group": (None, None),
    },
    "system": {
        "partition": ("lab-gpu", "partition0"), "account": ("42", "scrubbed"), "remark": ("thesis", "scrubbed"),
        "sbatch": (["--constraint=boss"], ["--constraint=scrubbed"]),
    },
}  # fmt: skip


def test_what_a_job_is_called_and_where_it_ran():
    before, after = ({name: {key: pair[side] for key, pair in group.items()} for name, group in JOB.items()}
                     for side in (0, 1))  # fmt: skip
    run = make_record(tracking=before["tracking"], system=before["system"])
    run.environment.variables = before["variables"]
    run.command = ["python", "system.partition=lab-gpu", "tracking.notes=the steps", "model=tiny"]
    run.environment.image = "registry.lab.edu/boss/kit:cpu"
    copy = scrubbed(run)
    assert {
        "variables": copy.environment.variables,
        **{name: copy.config[name] for name in ("tracking", "system")},
    } == after
    assert copy.command == ["python", "system.partition=partition0", "tracking.notes=scrubbed", "model=tiny"]
    assert copy.environment.image == "scrubbed"


def test_two_partitions_stay_two():
    runs = [make_record(), make_record()]
    for run, partition in zip(runs, ("fat", "thin"), strict=True):
        run.config["system"] = {"partition": partition}
    scrubber = Scrubber([], [])
    assert [scrubber.record(run).config["system"]["partition"] for run in runs] == ["partition0", "partition1"]


def test_a_user_with_a_name_of_the_kits_own_leaves_the_settings_whole():
    run = make_record(model="tiny", experiment="weak_scaling")
    run.notes = ["started by weak in tiny"]
    copy = Scrubber(["tiny"], ["weak", "cpu"]).record(run)
    assert (copy.experiment, copy.config["model"], copy.point) == (run.experiment, run.config["model"], run.point)
    assert copy.notes[0] == "started by user in host0"


def test_a_path_has_no_names():
    path = Scrubber([], ["jdoe42"]).path(Path("jdoe42_scaling/nodes=2/r0/record.json"))
    assert path == Path("user_scaling/nodes=2/r0/record.json")


def test_names_that_the_author_chose_are_listed_for_the_author():
    run = make_record(model="marble", experiment="weak_scaling")
    assert "model: marble" in scrub.authors_names([scrubbed(run)])
    assert not any(line.startswith("experiment") for line in scrub.authors_names([scrubbed(run)]))


@pytest.mark.parametrize("text", ["jdoe42-x", "JDOE42", "/home/somebody", "10.0.0.3", "fe80::3", "a@b.org"])
def test_a_text_that_reveals(text):
    assert scrub.reveals(f"op {text} 3", {"jdoe42"})
    assert not scrub.reveals("op Conv2D at 12:30:11 3", {"jdoe42"})
