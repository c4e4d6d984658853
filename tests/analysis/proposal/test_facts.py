import math
from dataclasses import replace

from analysis.proposal import facts
from analysis.proposal.facts import BLANK, Node
from tests.helpers.run_records import QUOTA, make_program, make_record


def test_a_program_is_named_with_what_its_record_says_of_it():
    runs = [make_program(1, 100.0), make_program(2, 190.0)]
    runs[1].program = replace(
        runs[1].program, compilers={"/opt/my_solver": "GCC: (Debian) 12.2.0"}, read_bytes=3_000_000, written_bytes=0
    )
    assert facts.code(runs) == {
        "code": "my_solver, version my_solver 1.2",
        "compiler": "my_solver: GCC: (Debian) 12.2.0",
        "MPI": "libmpi.so.40.30.4",
        "other libraries": "libgfortran.so.5.0.0",
        "parallel model": "MPI; 2 processes of 1 thread on the largest size",
        "problem": BLANK,
        "command line, largest size": "mpirun -np 2 ./my_solver",
    }
    machine = facts.machine(runs)
    assert machine["input and output"] == "3.0 MB read, 0.0 MB written on 2 nodes"
    assert machine["target machine, if another"] == BLANK
    assert machine["node hours of the study"] == "0.01 (0.01 core hours)"  # 10 s, and 2 x 10 s
    assert not {"Python", "GPUs", "image"} & machine.keys()


def test_a_program_whose_record_says_little_leaves_blanks():
    run = make_program(2, 100.0)
    run.program = replace(run.program, version="", libraries=[])
    code = facts.code([run])
    assert code["code"] == f"my_solver, version {BLANK}"
    assert code["compiler"] == code["MPI"] == BLANK
    assert code["parallel model"] == f"{BLANK}; 2 processes of 1 thread on the largest size"
    assert facts.machine([run])["input and output"] == BLANK


def test_the_kit_s_own_runs_have_the_version_of_tensorflow_whatever_its_package_is_called():
    run = make_record(nodes=2, **{"model.image_size": 224, "model.parameters": 25_557_032})
    versions = {"python": "3.11.7", "tensorflow-cpu": "2.21.0", "horovod": "0.28.1"}
    run.environment = replace(run.environment, versions=versions, compilers="GCC: (Debian) 12.2.0")
    code = facts.code([run])
    assert code["code"] == "tensorflow-cpu 2.21.0, horovod 0.28.1"
    assert code["compiler"] == "Horovod: GCC: (Debian) 12.2.0"
    assert code["problem"] == "training of ResNet50 (25,557,032 parameters) on synthetic images of 224 x 224, fp32, sgd"
    assert code["parallel model"].startswith("data parallel, horovod over gloo; 2 processes")
    assert facts.machine([run])["Python"] == "3.11.7"


def test_the_hardware_of_a_node():
    slurm = {"launcher": {"name": "slurm"}}
    assert facts.node(make_record()) == Node(1, 0)
    assert facts.node(make_record(**QUOTA)) == Node(0.2, 0)
    assert facts.node(make_record(**slurm)) == Node(4, 0)  # a whole host
    assert facts.node(make_record(**slurm, device="gpu", ranks_per_node=2)) == Node(4, 2)


def test_the_cores_of_a_host_that_was_not_asked_are_not_known():
    run = make_program(2, 100.0, launcher={"name": "ssh"})
    run.environment = replace(run.environment, hosts=[replace(run.environment.hosts[0], cores=0)])
    assert math.isnan(facts.node(run).cores)
    assert facts.machine([run])["a node"] == f"cores: {BLANK}"
