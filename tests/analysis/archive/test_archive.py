import gzip
import hashlib
from pathlib import Path

import pytest

from analysis import TableError, archive
from analysis.study import Study
from analysis.timeline import find_launches
from record import run_files as files
from record import schema as record
from record.schema import Failure, Server
from tests.helpers.run_records import make_record, run_with_names, save
from tests.helpers.timelines import launch_with_timeline, load

FILES = ["horovod-timeline.json", "operations-0.json.gz", "operations-1.json.gz"]


def names(result):
    return sorted(path.name for path in result.attachments)


def test_what_a_launch_left_beside_its_record_comes_along(tmp_path):
    save(make_record(), tmp_path)
    path = launch_with_timeline(tmp_path)
    result = archive.collect(tmp_path, scrubbed=False)
    assert len(result.records) == 2
    assert {tmp_path / attachment for attachment in result.attachments} == {path.with_name(name) for name in FILES}
    assert result.left_out == []
    # A file that is missing or does not belong to the record is left out and named.
    path.with_name("operations-0.json.gz").unlink()
    path.with_name("operations-1.json.gz").write_bytes(b"another")
    result = archive.collect(tmp_path, scrubbed=False)
    assert names(result) == FILES[:1]
    missing, changed = result.left_out
    assert "operations-0.json.gz: No such file" in missing
    assert "operations-1.json.gz: not the file of the record beside it" in changed


def test_a_name_that_leads_elsewhere_is_not_followed(tmp_path):
    (tmp_path / "secret").write_text("s")
    run = make_record()
    run.attachments = {"../../../../../secret": hashlib.sha256(b"s").hexdigest()}
    save(run, tmp_path / "results")
    result = archive.collect(tmp_path / "results", scrubbed=False)
    assert (result.attachments, result.left_out) == ({}, [])


def test_scrubbed_files_are_those_that_name_nobody_and_records_have_their_digests(tmp_path):
    path = launch_with_timeline(tmp_path / "from")
    result = archive.collect(tmp_path / "from", scrubbed=True)
    assert names(result) == FILES
    for relative, content in (result.records | result.attachments).items():
        files.write_once(tmp_path / "to" / relative, content)
    [copy] = find_launches(Study(tmp_path / "to").records)
    assert len(load(copy).ranks) == 2
    content = gzip.compress(b'{"began_at": 1.0, "operations": [["worker on host1", "Conv2D", 10.0, 300.0]]}')
    path.with_name(FILES[2]).write_bytes(content)
    run = record.load(path)
    run.attachments[FILES[2]] = hashlib.sha256(content).hexdigest()
    path.write_bytes(record.dumps(run))
    result = archive.collect(tmp_path / "from", scrubbed=True)
    assert names(result) == FILES[:2]
    [reason] = result.left_out
    assert f"{FILES[2]}: it has the name of a host or a user" in reason


def test_without_a_record_there_is_nothing_to_pack(tmp_path):
    with pytest.raises(TableError, match="no run record in it to pack"):
        archive.collect(tmp_path, scrubbed=False)


def scrubbed(run):
    return archive.Scrubber(archive.hosts(run), archive.users(run)).record(run)


def test_no_name_is_left_and_the_record_loads_again():
    run = run_with_names()
    text = "connect to owens-ib2 failed: /home/jdoe42/x"
    run.failure = Failure(text, host="owens-ib2", log="/home/jdoe42/r/rank-1.log")
    text = record.dumps(scrubbed(run))
    for name in (b"owens", b"osc.edu", b"jdoe42", b"/home", b"/scratch", b"10.3.0", b"the-lab"):
        assert name not in text
    assert record.loads(text, "here").notes[-1] == archive.SCRUBBED


def test_the_host_of_a_server_is_a_name_too():
    run = make_record()
    run.environment, run.servers = None, [Server(1, "secret.example.org", [0], 1)]
    assert {"secret", "secret.example.org"} <= archive.hosts(run)


def test_measurements_stay_as_they_are():
    run = run_with_names()
    copy = scrubbed(run)
    assert [rank.host for rank in copy.ranks] == ["host0", "host1"]
    assert copy.environment.hosts[0].host == "host0"  # one host, one name
    assert [rank.step_times_s for rank in copy.ranks] == [rank.step_times_s for rank in run.ranks]
    assert (copy.config_hash, copy.job_s, copy.started_at) == (run.config_hash, run.job_s, run.started_at)
    env = copy.environment.variables
    assert (env["SLURM_NNODES"], env["HOROVOD_CYCLE_TIME"], env["SLURM_NODELIST"]) == ("2", "20", "scrubbed")
    assert copy.command == ["/...", "-m", "train", "results=/...", "hosts=host0:1"]
    assert copy.notes[0] == "rank 1 on host1 was slow; see /.../rank-1.log"
    assert copy.environment.image == "/.../kit.sif"
    assert copy.environment.hosts[0].cpu_model == run.environment.hosts[0].cpu_model


UNTOUCHED = ("3 images/s and/or 4", "https://example.org/a/b", "1/2", "a ~ b", "127.0.0.1", "jdoe421, myjdoe42")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, text) for text in UNTOUCHED),
        # Names in longer words, in any case.
        ("jdoe42-thesis, my_jdoe42_job, JDOE42", "user-thesis, my_user_job, user"),
        ("OWENS-IB2: x.owens-ib.osc.edu, osc.edu", "host1: x.host0, domain"),
        ("via fe80::1%eth0 and [2001:db8::10]:22", "via address and [address]:22"),
        ("2001:0db8:85a3:0000:0000:8a2e:0370:7334", "address"),
        ("::ffff:10.0.0.3", "address"),
        ("mlx5_0 aa:bb:cc:dd:ee:0f up", "mlx5_0 address up"),
        ("write to j.doe+x@cs.ohio.edu.", "write to address."),
        ("sbatch --qos=debug --job-name big -J x", "sbatch --qos=scrubbed --job-name scrubbed -J x"),
        ("at 10:30:25, std::vector, [::1]:22", "at 10:30:25, std::vector, [::1]:22"),
    ],
)
def test_names_addresses_and_options_in_a_text(text, expected):
    run = run_with_names()
    run.notes = [text]
    assert scrubbed(run).notes[0] == expected


def test_a_name_within_another_word_is_not_touched():
    run = make_record()
    run.ranks[0].host = "owl"
    run.notes = ["owl: 2 owls, owls=2, knowledge"]
    assert scrubbed(run).notes[0] == "host1: 2 owls, owls=2, knowledge"  # host0 is a host of that name


def test_what_a_job_is_called_and_where_it_ran():
    run = make_record()
    run.environment.variables = {
        "SLURM_JOB_NAME": "secret-thesis", "SLURM_JOB_QOS": "boss", "SLURM_JOB_PARTITION": "lab-gpu",
        "SLURM_JOB_UID": "20042", "SLURM_JOB_ID": "777", "SLURM_NNODES": "2", "SLURM_JOB_NUM_NODES": "2",
    }  # fmt: skip
    run.config["tracking"] = {
        "name": "wandb", "project": "secret", "entity": "lab", "sync": False,
        "tags": ["thesis"], "notes": "for the boss", "group": None,
    }  # fmt: skip
    run.config["system"] = {"partition": "lab-gpu", "account": "lab", "sbatch": ["--qos=boss"], "remark": "of the boss"}
    run.command = ["python", "system.partition=lab-gpu", "tracking.notes=the boss", "model=tiny"]
    run.environment.image = "registry.lab.edu/boss/kit:cpu"
    copy = scrubbed(run)
    assert copy.environment.variables == {
        "SLURM_JOB_NAME": "scrubbed", "SLURM_JOB_QOS": "scrubbed", "SLURM_JOB_PARTITION": "partition0",
        "SLURM_JOB_UID": "scrubbed", "SLURM_JOB_ID": "scrubbed", "SLURM_NNODES": "2", "SLURM_JOB_NUM_NODES": "2",
    }  # fmt: skip
    assert copy.config["tracking"] == {
        "name": "wandb", "project": "scrubbed", "entity": "scrubbed", "sync": False,
        "tags": [], "notes": "scrubbed", "group": None,
    }  # fmt: skip
    assert copy.config["system"] == {
        "partition": "partition0", "account": "scrubbed", "sbatch": ["--qos=scrubbed"], "remark": "scrubbed",
    }  # fmt: skip
    assert copy.command == ["python", "system.partition=partition0", "tracking.notes=scrubbed", "model=tiny"]
    assert copy.environment.image == ".../kit:cpu"


def test_two_partitions_stay_two():
    runs = [make_record(), make_record()]
    for run, partition in zip(runs, ("fat", "thin"), strict=True):
        run.config["system"] = {"partition": partition}
    scrubber = archive.Scrubber([], [])
    assert [scrubber.record(run).config["system"]["partition"] for run in runs] == ["partition0", "partition1"]


def test_a_user_with_a_name_of_the_kits_own_leaves_the_settings_whole():
    run = make_record(model="tiny", experiment="weak_scaling")
    run.notes = ["started by weak in tiny"]
    copy = archive.Scrubber(["tiny"], ["weak", "cpu"]).record(run)
    assert (copy.experiment, copy.config, copy.point) == (run.experiment, run.config, run.point)
    assert copy.notes[0] == "started by user in host0"


def test_a_path_has_no_names():
    path = archive.Scrubber([], ["jdoe42"]).path(Path("jdoe42_scaling/nodes=2/r0/record.json"))
    assert path == Path("user_scaling/nodes=2/r0/record.json")


def test_texts_that_remain_are_listed_for_the_author():
    run = make_record()
    run.notes = ["the professor was here"]
    run.environment.variables = {"TF_CONFIG": "marble", "SLURM_NNODES": "2", "OMP_NUM_THREADS": "1"}
    lines = archive.remains([scrubbed(run)])
    assert {"notes: the professor was here", "TF_CONFIG: marble"} <= {*lines}
    assert not any("OMP_NUM" in line or "NNODES" in line or "scrubbed" in line for line in lines)


@pytest.mark.parametrize("text", ["jdoe42-x", "JDOE42", "/home/somebody", "10.0.0.3", "fe80::3", "a@b.org"])
def test_a_text_that_reveals(text):
    assert archive.reveals(f"op {text} 3", {"jdoe42"})
    assert not archive.reveals("op Conv2D at 12:30:11 3", {"jdoe42"})
