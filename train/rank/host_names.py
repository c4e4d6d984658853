"""Names of hosts for people: many names as one short text, and hosts by the text that holds for them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

_NUMBERED = re.compile(r"^(.*?)(\d+)(\D*)$")  # the last number of a text, and what is around it


def folded(names: Iterable[str]) -> str:
    """Return the names as Slurm and pdsh write them: n[1-3], n[0008-0256].cluster, login."""
    parts = [_parts(name) for name in dict.fromkeys(names)]
    padded = {(head, tail, len(number)) for head, number, tail in parts if number.startswith("0")}
    families: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for head, number, tail in parts:
        digits = len(number) if (head, tail, len(number)) in padded else 1  # n08 and n8 are two hosts
        families[head, tail, digits if number else 0].append(int(number or 0))
    return ", ".join(_family(*key, sorted(numbers)) for key, numbers in families.items())


def _parts(name: str) -> tuple[str, str, str]:
    """Return the parts of a host name: before its number, the number ("": none), after it, such as the domain."""
    label, dot, domain = name.partition(".")
    if label.isdigit():  # an address
        label, dot, domain = name, "", ""
    if match := _NUMBERED.match(label):
        return match[1], match[2], f"{match[3]}{dot}{domain}"
    return name, "", ""


def _family(head: str, tail: str, digits: int, numbers: list[int]) -> str:
    """Hosts that differ in their number alone, which has so many digits or more; 0: it has none."""
    if digits == 0:
        return head
    texts = [f"{first:0{digits}}" + (f"-{last:0{digits}}" if last > first else "") for first, last in _runs(numbers)]
    inner = ",".join(texts)
    return f"{head}{inner}{tail}" if len(numbers) == 1 else f"{head}[{inner}]{tail}"


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of each run of consecutive numbers; `numbers` ascend."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number > last + 1:
            yield first, last
            first = number
        last = number
    yield first, last


def hosts_by_text(texts: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """Return text -> the folded names of the hosts that it holds for, from pairs of host and text."""
    hosts: dict[str, list[str]] = defaultdict(list)
    for host, text in texts:
        hosts[text].append(host)
    return {text: folded(names) for text, names in hosts.items()}
