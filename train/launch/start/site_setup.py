"""The lines of a site's file that a batch script runs first: the job ends at the first one that fails, and names it."""

import re
import shlex
from collections.abc import Sequence

# A job that went on would measure with other modules than the site's file says. Only a command itself counts: functions
# such as `module` may have failing commands within.
_BEGIN = """\
trap 'status=$?; echo "system.setup: $setup_line: exit status $status; the job ends here" >&2; exit $status' ERR"""
# Before version 4, Tcl's `module load` returns 0 for a module that does not exist. Lmod and later ones set a variable.
_LOADED = """\
setup_loaded() {
  [ -n "$LMOD_VERSION$MODULES_CMD" ] && return
  for module; do
    case ":$LOADEDMODULES:" in
      *":$module:"* | *":$module/"*) ;;
      *) setup_line="$setup_line: $module is not loaded"; return 1 ;;
    esac
  done
}"""
_LOADS = re.compile(r"\s*module\s+(?:load|add)\s+([\w./+@$ {}-]+)")


def script(lines: Sequence[str]) -> list[str]:
    """Return the lines of a script of bash that run these, and end it where one fails or loads no module."""
    if not lines:
        return []
    loads = [_LOADS.fullmatch(line) for line in lines]
    checked = [_LOADED] if any(loads) else []
    for line, load in zip(lines, loads, strict=True):
        checked += [f"setup_line={shlex.quote(line.strip())}", line]
        checked += [f"setup_loaded {load[1].strip()}"] if load else []
    return [_BEGIN, *checked, "trap - ERR"]
