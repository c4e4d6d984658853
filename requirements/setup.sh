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
    printf 'error: %s\n' "$1" >&2
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
    echo "warning: no flock (package util-linux): let no other set-up of $venv run meanwhile" >&2
elif ! flock -n 9; then
    echo "Another set-up of $venv is running: waiting for it"
    flock 9
    exec "$0" "$venv" "$@" # it may have installed all of this
fi
ls /etc/ssl/certs/ca-*.crt >/dev/null 2>&1 && export UV_SYSTEM_CERTS=1 # those of a site are there
trap 'echo "interrupted: nothing is lost, the same command resumes" >&2; exit 130' INT TERM

uv=uv
if ! locked >/dev/null 2>&1; then # there is none on PATH, or one that is too old to read the lock
    uv=$venv/uv/bin/uv
    if [ ! -x "$uv" ]; then
        echo "Installing uv into $venv/uv"
        { "${PYTHON:-python3}" -m venv --clear "$venv/uv" && "$venv/uv/bin/python" -m pip install --quiet --no-deps \
            --disable-pip-version-check --only-binary :all: --require-hashes -r "$here/uv.txt"; } || fail "uv cannot be
installed; put it on PATH (docs.astral.sh/uv), or: sudo apt-get install python3-venv"
    fi
fi

if [ -z "${python-}" ] && [ "${PYTHON-}" ]; then
    python=$PYTHON
    supported "$python" || fail "PYTHON=$python: $("$python" --version 2>&1); TensorFlow 2.21 needs Python 3.11, 3.12
or 3.13. Leave out PYTHON= to use one that is on PATH or that uv fetches"
elif [ -z "${python-}" ]; then
    found() { "$uv" python find --system --no-project --no-python-downloads '>=3.11,<3.14' 2>/dev/null; }
    python=$(found) || { "$uv" python install 3.13 && python=$(found); } || fail "no Python 3.11, 3.12 or 3.13 is on PATH
($(python3 --version 2>&1) is), and uv could not fetch one. Install one, then run the same command again:
  Debian 12 and 13, Ubuntu 24.04   sudo apt-get install python3
  Ubuntu 22.04                     sudo apt-get install python3.11
  RHEL 8 and 9                     sudo dnf install python3.12
  a cluster                        module load python/3.12, or as module avail python names it
PYTHON=/folder/bin/python3.12 names one that is not on PATH"
fi
for set in analysis launch cpu cuda; do case "$missing " in *" $set "*) largest=$set ;; esac; done
[ ! -e "$doctor" ] || "$python" "$doctor" --before-setup "${largest:-analysis}" ||
    fail "nothing was installed; fix what failed above, then run the same command again"

echo "Setting up $venv with $("$python" --version), $python:$missing"
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
"$uv" pip install --python "$venv" --no-build-isolation-package antlr4-python3-runtime --no-deps --require-hashes -r "$venv/requirements.txt"
rm "$begun"
case "$missing " in *" cpu "* | *" cuda "* | *" mpich "*)
    locked --only-group horovod >"$venv/requirements.txt"
    "$venv/bin/python" "$here/compile_horovod.py" "$uv" "$venv/requirements.txt"
    ;;
esac
for group in $missing; do echo "$state" >"$venv/.installed-$group"; done
