"""Time of what `make figures` and `make report` do: `python -m benchmarks.draw_figures`.

The aim, on two cores: all figures of the reports in 12 s, and the page in 20 s of CPU time. Each command runs in a
process of its own, as make starts it; CPU time is that of all its processes. On a machine that does something else too,
wall time says little.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def timed(*command: str) -> tuple[float, float]:
    """Wall time and CPU time of a command, in s."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "analysis", *command], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    wall_s, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("/nonexistent"), help="local records; default: none")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory() as folder:
            records = ("--results", str(options.results.absolute()))
            for name, out in (("draw", folder), ("report", f"{folder}/report.html")):
                wall_s, cpu_s = timed(name, *records, "--out", out)
                print(f"{name}: {wall_s:.1f} s, {cpu_s:.1f} s of CPU", flush=True)


if __name__ == "__main__":
    main()
