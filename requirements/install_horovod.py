"""Install a compiled wheel of Horovod into this interpreter's environment, and check that it works there.

    .venv/bin/python requirements/install_horovod.py horovod-0.28.1-cp311-cp311-linux_x86_64.whl Gloo MPI

The exit status is 0 only where it loads beside the environment's TensorFlow and was compiled with all parts that are
named. It is linked with -z now: where a symbol of TensorFlow or of the MPI is missing, it does not load.
"""

import os
import subprocess
import sys

if __name__ == "__main__":
    wheel, *parts = sys.argv[1:]
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--force-reinstall", "--disable-pip-version-check"]
    subprocess.run([*pip, wheel], check=True)
    os.environ |= {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "1"}
    import horovod.tensorflow as hvd

    built = {"Gloo": hvd.gloo_built(), "MPI": hvd.mpi_built(), "NCCL": bool(hvd.nccl_built())}
    if missing := [part for part in parts if not built[part]]:
        sys.exit(f"Horovod was compiled without {', '.join(missing)}")
    print("Horovod loads; it was compiled with", ", ".join(part for part, there in built.items() if there))
