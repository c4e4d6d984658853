"""One rank of one run: compose, join the others, build, measure, record.

`python -m train.launch` starts it on every rank. By hand it works the same under horovodrun, mpirun or srun:

    horovodrun -np 2 python -m train experiment=weak_scaling model=resnet50 nodes=2
"""

import time

FIRST_LINE_AT = time.time()

import argparse  # noqa: E402
import os  # noqa: E402
import resource  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
import traceback  # noqa: E402
from pathlib import Path  # noqa: E402

from train.config.compose import load  # noqa: E402
from train.config.schema import Config, ConfigError  # noqa: E402
from train.distribution import backends  # noqa: E402
from train.rank import launcher_watch, placement, roll_call  # noqa: E402
from train.rank.phases import PhaseClock  # noqa: E402
from train.rank.quota_gate import NO_LIMITS, Limits  # noqa: E402
from train.rank.sampler import Sampler  # noqa: E402
from train.record import parts, predictions  # noqa: E402
from train.record.record import Failure, Rank  # noqa: E402
from train.standalone import check_writable, write_record  # noqa: E402


def measure(
    config: Config,
    clock: PhaseClock,
    part: parts.Part,
    joined: backends.Distribution,
    usable_cores: int,
    limits: Limits,
    gpu: str | None,
    run_dir: Path | None,
) -> predictions.Predictions | None:
    """Measure on this rank: training, or allreduces alone; what was measured goes into `part` as it comes.

    Gives what the model answered at the end, where there is something to answer.

    Args:
        usable_cores: of this host, for the whole job: counted before this rank bound itself to its own.
        gpu: which one of this host this rank has, if any.
        run_dir: the run's folder, where a launcher made one.

    Raises ConfigError where ranks are in the wrong place, and what `training.train` and `allreduce_sweep.run` raise.
    """
    from train.rank import environment

    environment.check_mpi(config.container.mpi_home)
    library = environment.mpi_library()
    here = environment.host(usable_cores)

    def introduce() -> None:
        """Tell the others where this rank is, and check where all of them are."""
        present = joined.gather(
            roll_call.Present(joined.rank, here, tuple(part.rank.cores), gpu, library.version if library else None)
        )
        roll_call.check(present, config)
        hosts = list({one.host.host: one.host for one in present}.values())
        if joined.rank == 0:
            part.environment = environment.collect(hosts)
            part.notes = [note for note in [roll_call.unequal(hosts)] if note]

    if config.allreduce_sweep:
        from train.allreduce import sweep

        introduce()
        sweep.run(config.allreduce_sweep, config.device, joined, clock, part)
        return None
    from train.loop import training

    return training.train(config, clock, part, joined, limits, run_dir, introduce)


def start_tensorflow(config: Config, local_rank: int, threads: int, meeting: Path) -> tuple[str | None, str | None]:
    """Import TensorFlow with its thread pools and its GPU set. Raises ConfigError where there is none.

    meeting: a folder that all hosts see.
    Gives the name of the GPU, and what tells it from the others of this host; None, None without.
    """
    # TensorFlow loads one Keras with itself; tf_keras is the one in use, and loading Keras 3 too would take 2 s.
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    # TensorFlow leaves oneDNN off on CPUs without AVX-512: there it makes VGG16 1.5 and AlexNet 3.6 times faster.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    if config.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    backends.prepare(config, meeting)
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if config.device == "cpu":
        return None, None
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise ConfigError(
            f"device=gpu: TensorFlow finds no GPU on {socket.gethostname()}; under Slurm ask for them "
            "(--gpus-per-node), in Singularity they need --nv; or device=cpu"
        )
    # Slurm may show each rank its own GPU alone. Whether two ranks got the same one, the roll call finds out.
    index = local_rank % len(gpus)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    tf.config.set_visible_devices(gpus[index], "GPU")
    tf.config.experimental.set_memory_growth(gpus[index], True)
    name = tf.config.experimental.get_device_details(gpus[index]).get("device_name", "GPU")
    return name, visible[index] if index < len(visible) and visible[index] else str(index)


def limits(config: Config, run_dir: Path | None, rank: int) -> Limits:
    """What this rank's measured steps are held to. Raises ConfigError where nobody is there to hold it."""
    if config.launcher.name != "emulated":
        return NO_LIMITS
    if run_dir is None:
        raise ConfigError(
            "launcher=emulated: only `python -m train.launch` gives nodes their share; by hand take local"
        )
    return Limits(run_dir, rank)


def bind_cores(config: Config, local_rank: int) -> list[int]:
    """Bind this process to its cores: gives them. `config` learns how many, where no launcher has worked it out."""
    available = placement.usable_cores()
    nodes_here = max(1, placement.local_size() // config.ranks_per_node)
    per_node = config.system.cores_per_node or placement.cores_per_node(len(available), nodes_here)
    threads = config.threads_per_rank or placement.threads_per_rank(per_node, config.ranks_per_node)
    config.system.cores_per_node, config.threads_per_rank = per_node, threads
    cores = placement.cores_of_rank(available, local_rank, config.ranks_per_node, per_node, threads)
    placement.bind(cores)
    return cores


def main() -> int:
    """Run one rank; the exit status is 0 only where it measured all that it was asked for."""
    parser = argparse.ArgumentParser(prog="python -m train", description=__doc__.splitlines()[0])
    parser.add_argument("--run-dir", type=Path, help="given by the launcher: where this run leaves its parts and logs")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, as experiment=weak_scaling nodes=2")
    arguments = parser.parse_intermixed_args()
    rank = placement.global_rank()
    if arguments.run_dir:
        launcher_watch.hold(os.dup(sys.stdout.fileno()))
        log = os.open(parts.log_path(arguments.run_dir, rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, sys.stdout.fileno())
        os.dup2(log, sys.stderr.fileno())
    started_at = float(os.environ.get("KIT_JOB_STARTED_AT", FIRST_LINE_AT))
    clock = PhaseClock(started_at, str(rank))
    clock.enter("import", at=FIRST_LINE_AT)

    local_rank = placement.local_rank()
    part = parts.Part(Rank(rank, local_rank, 0, socket.gethostname(), [], None, {}, [], [], 0))
    failure: Failure | None = None
    joined: backends.Distribution | None = None
    answers: predictions.Predictions | None = None
    sampler: Sampler | None = None
    try:
        config = load(arguments.overrides)
        if not arguments.run_dir:
            check_writable(Path(config.results))
        usable_cores = len(placement.usable_cores())
        part.rank.cores = bind_cores(config, local_rank)
        part.rank.gpu, gpu = start_tensorflow(
            config, local_rank, len(part.rank.cores), arguments.run_dir or Path(config.results)
        )
        if config.distribution.backend == "horovod":
            import horovod.tensorflow  # noqa: F401
        if config.measure.usage_period_s:  # before the ranks meet: some MPIs forbid new processes afterwards
            sampler = Sampler(config.measure.usage_period_s, gpu)
        clock.enter("init")
        joined = backends.join(config)
        part.rank.rank, part.rank.local_rank = joined.rank, joined.local_rank
        part.rank.node = joined.rank // config.ranks_per_node
        held = limits(config, arguments.run_dir, joined.rank)
        answers = measure(config, clock, part, joined, usable_cores, held, gpu, arguments.run_dir)
        if answers and arguments.run_dir and joined.rank == 0:
            part.attachments = predictions.write(arguments.run_dir, answers)
    except backends.LeftBehind as error:
        print(f"[rank {rank}] {error}", file=sys.stderr)
        return 1  # without a part: another rank has this one's number now
    except Exception as error:
        kind = "" if isinstance(error, ConfigError) else f"{type(error).__name__}: "
        failure = Failure(
            reason=f"{kind}{error}",
            rank=part.rank.rank,
            host=part.rank.host,
            phase=clock.phase,
            step=getattr(error, "step", None),
        )
        print(f"rank {rank} on {part.rank.host} failed in phase {clock.phase}: {failure.reason}", file=sys.stderr)
        if not isinstance(error, ConfigError):
            traceback.print_exc()
    if sampler:
        part.rank.usage = sampler.stop(started_at)
    part.failure = failure
    part.rank.phases_s = clock.stop()
    part.rank.peak_memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if arguments.run_dir:
        parts.write(arguments.run_dir, part)
    elif joined:  # ranks that have not met would each write a record of their own
        everyone = [part] if failure else joined.gather(part)
        if part.rank.rank == 0:
            write_record(config, everyone, FIRST_LINE_AT, answers)
    if joined and not failure:
        joined.leave()
    return 1 if failure else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: after a failure Horovod would wait for ranks that are not coming, and after a success taking
    # TensorFlow apart costs a second.
    os._exit(status)
