#!/bin/sh
# Install groups of uv.lock into an environment, which is made if it is not there: requirements/setup.sh .venv cpu dev
# The groups are in pyproject.toml. PYTHON= names the Python of a new environment. Needs uv, or Python with venv.
set -eu
umask go-w # nobody else may exchange a program that runs as this user
venv=$1
shift
here=$(dirname "$0") root=$(dirname "$0")/..
doctor=$root/train/tools/doctor.py # not there in the build of an image

fail() {
    printf 'error: %s\n' "$1" | fmt -s -w 80 >&2
    exit 1
}
version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
supported() { case $(version "$1") in 3.11 | 3.12 | 3.13) ;; *) return 1 ;; esac; }
state=$(find "$root/uv.lock" "$here" -type f ! -name '*.pyc' -print0 | LC_ALL=C sort -z | xargs -0 cat | sha256sum)
installed() { # is one of these groups there, as it is locked now?
    for one; do if [ "$(cat "$venv/.installed-$one" 2>/dev/null)" = "$state" ]; then return 0; fi; done
    return 1
}
locked() { "$uv" export --project "$root" --frozen --offline --quiet --no-header --no-annotate "$@"; }
step() { # PYTHON LABEL COMMAND...
    with=$1
    shift
    "$with" "$here/step.py" "$venv/install.log" "$@"
}

if [ -e "$venv/bin/python" ] || [ -h "$venv/bin/python" ]; then
    again='remove it with make clean-env (results are kept), then run the same command again'
    there=$(version "$venv/bin/python") || fail "$venv: its Python is gone or does not start; $again"
    [ -z "${PYTHON-}" ] || [ "$(version "$PYTHON")" = "$there" ] ||
        fail "$venv has Python $there, and PYTHON=$PYTHON is another; leave out PYTHON= to use it as it is, or $again"
    python=$venv/bin/python
fi
missing=
for group; do
    case $group in # the groups that include it
    analysis) installed analysis launch cpu cuda dev ;;
    launch) installed launch cpu cuda ;;
    *) installed "$group" ;;
    esac || missing="$missing $group"
done
[ "$missing" ] || exit 0
[ ! -h "$venv" ] || fail "$venv is a link, and not as uv.lock has it; run make setup in the folder of the environment"
mkdir -p "$venv"
exec 9>"$venv/.setting-up" # the lock: kept as long as this process and what it started run
if ! command -v flock >/dev/null; then
    echo "warning: no flock (of util-linux): start no other set-up of $venv meanwhile" >&2
elif ! flock -n 9; then
    echo "Another set-up of $venv is running: waiting for it"
    flock 9
    exec "$0" "$venv" "$@" # it may have installed all of this
fi
exec 8>&2 # a trap may run while a function's output is redirected
trap 'echo "interrupted: nothing is lost, the same command resumes" >&8; exit 130' INT TERM

# Of uv's settings those count that say where files come from and lie, and how they are fetched: others, as UV_DEV=1,
# would change what is installed.
for name in $(env | sed -n 's/^\(UV_[A-Z0-9_]*\)=.*/\1/p'); do
    case $name in
    *INDEX* | *CERT* | *CACHE* | *HTTP* | *TIMEOUT | *CREDENTIALS* | UV_CONCURRENT_* | UV_FIND_LINKS | UV_OFFLINE) ;;
    UV_INSECURE_HOST | UV_KEYRING_PROVIDER | UV_NATIVE_TLS | UV_LINK_MODE | UV_COMPILE_BYTECODE | UV_CONFIG_FILE) ;;
    UV_PYTHON_INSTALL_* | UV_PYTHON_DOWNLOADS* | UV_PYTHON_CACHE_DIR) ;;
    *) unset "$name" ;;
    esac
done
ls /etc/ssl/certs/ca-*.crt >/dev/null 2>&1 && export UV_SYSTEM_CERTS=1 # those of a site are there
export UV_LOCK_TIMEOUT="${UV_LOCK_TIMEOUT:-86400}" # another set-up of this user may compile: it is waited for
: >"$venv/install.log"

if [ -z "${python-}" ] && [ "${PYTHON-}" ]; then
    command -v "$PYTHON" >/dev/null || fail "PYTHON=$PYTHON: there is no such program"
    supported "$PYTHON" || fail "PYTHON=$PYTHON: $("$PYTHON" --version 2>&1); TensorFlow 2.21 needs Python 3.11, 3.12 \
or 3.13. Leave out PYTHON= to use one that is on PATH or that uv fetches"
    python=$PYTHON
fi
uv=uv
if ! locked >/dev/null 2>&1; then # there is none on PATH, or one that is too old to read the lock
    uv=$venv/uv/bin/uv
    if [ ! -x "$uv" ]; then
        base=${PYTHON:-python3}
        "$base" -c 'import ensurepip, venv' 2>/dev/null || fail "there is no uv on PATH that reads uv.lock, and \
$base cannot make an environment for one ($("$base" -c 'import ensurepip, venv' 2>&1 | tail -n 1)).
Install one of them, then run the same command again: uv (docs.astral.sh/uv), or sudo apt-get install python3-venv"
        why="uv could not be installed: why is above. One that is on PATH serves as well (docs.astral.sh/uv)"
        step "$base" "Making an environment for uv" "$base" -m venv --clear "$venv/uv" || fail "$why"
        step "$base" "Installing uv into $venv/uv" "$venv/uv/bin/python" -m pip install --no-deps \
            --disable-pip-version-check --only-binary :all: --require-hashes -r "$here/uv.txt" || fail "$why"
    fi
    problem=$(locked 2>&1 >/dev/null) || fail "uv does not work here: $problem"
fi

if [ -z "${python-}" ]; then
    find_python() { "$uv" python find --system --no-project --no-python-downloads '>=3.11,<3.14' 2>"$venv/uv.log"; }
    python=$(find_python) || { "$uv" python install 3.13 && python=$(find_python); } || fail "$(cat "$venv/uv.log")
no Python 3.11, 3.12 or 3.13 was found ($(python3 --version 2>&1) is on PATH), and uv could not fetch one. Install one, \
then run the same command again:
  Debian 12 and 13, Ubuntu 24.04   sudo apt-get install python3
  Ubuntu 22.04                     sudo apt-get install python3.11
  RHEL 8 and 9                     sudo dnf install python3.12
  a cluster                        module load python/3.12, or as module avail python names it
PYTHON=/folder/bin/python3.12 names one that is not on PATH"
    rm "$venv/uv.log"
fi
for set in analysis launch cpu cuda; do case "$missing " in *" $set "*) largest=$set ;; esac; done
[ ! -e "$doctor" ] || "$python" "$doctor" --before-setup "${largest:-analysis}" ||
    fail "nothing was installed; fix what failed above, then run the same command again"

printf 'Setting up %s with %s:%s\n  %s\n' "$venv" "$("$python" --version)" "$missing" "$python"
for group in $missing; do rm -f "$venv/.installed-$group"; done
begun=$venv/.begun
if [ -e "$begun" ]; then # an interruption may have left a package with a part of its files
    rm -rf "$venv"/.installed-* "$venv"/lib/python3*/site-packages
fi
if [ -e "$begun" ] || [ ! -e "$venv/bin/python" ]; then
    "$uv" venv --quiet --no-project --allow-existing --python "$python" "$venv"
fi
touch "$begun"
# shellcheck disable=SC2046,SC2086
locked $(printf -- '--only-group %s ' $missing) >"$venv/requirements.txt"
step "$python" "Installing $(grep -c '==' "$venv/requirements.txt") packages" "$uv" pip install --python "$venv" \
    --no-build-isolation-package antlr4-python3-runtime --no-deps --require-hashes -r "$venv/requirements.txt" ||
    fail "the packages could not be installed: why is above; all that was said is in $venv/install.log"
rm "$begun"
case "$missing " in *" cpu "* | *" cuda "* | *" mpich "*)
    locked --only-group horovod >"$venv/requirements.txt"
    "$venv/bin/python" "$here/compile_horovod.py" "$uv" "$venv/requirements.txt"
    ;;
esac
for group in $missing; do echo "$state" >"$venv/.installed-$group"; done
