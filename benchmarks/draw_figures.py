"""The time of `make figures` and `make report`: `python -m benchmarks.draw_figures`.

The aim, on two cores: all figures of the reports in 12 s, and the page in 20 s of CPU time. Each command runs in a
separate process, as make starts it; CPU time is that of all its processes. On a busy machine, ignore wall time.
"""

import sys
import tempfile
from pathlib import Path

from benchmarks.common import keep_cores, options, timed


def main() -> None:
    parser = options("draw_figures", __doc__, repeats=(3, "of each command"), cores=(2, "that it may use"))
    parser.add_argument("--results", type=Path, default=Path("/nonexistent"), help="local records; default: none")
    arguments = parser.parse_args()
    keep_cores(arguments.cores)
    for _ in range(arguments.repeats):
        with tempfile.TemporaryDirectory() as folder:
            for name, out in (("draw", folder), ("report", f"{folder}/report.html")):
                records = ["--results", str(arguments.results.absolute())]
                times = timed([sys.executable, "-m", "analysis", name, *records, "--out", out])
                print(f"{name}: {times.wall_s:.1f} s, {times.cpu_s:.1f} s of CPU", flush=True)


if __name__ == "__main__":
    main()
