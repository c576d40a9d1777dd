"""τ: the document's minimum of a machine, line by line, against this one.

Each line passes, falls short, or is unknown: what a machine does not show is neither. A virtual disk hides its medium,
a virtual card its speed, and the tables of the firmware are root's. Linux; everything is read below one root, `/proc`
and `/sys` of another machine included. spec: MN6.1 to MN6.6
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tmmu.mnemosyne.latency import required_ram
from tmmu.runtime.ram import control_groups, text_of, total_ram

Verdict = Literal["pass", "shortfall", "unknown"]

PASS: Final = "pass"
SHORTFALL: Final = "shortfall"
UNKNOWN: Final = "unknown"

GB = 10**9
"""002's GB and MB/s are decimal."""

CORES = 4
RAM = 8 * GB
WORKING_SET = 1 * GB + 7 * GB // 2
"""LLaMA-2-7B: 1 GB of keys and values, 3.5 GB of weights of 4 bits."""
MEMORY_RATE = 3200
STORAGE = 16 * GB
READ_SPEED = 500 * 10**6
NETWORK = 1000
CORTEX_A76 = 0xD0B
AT_LEAST_LPDDR4 = {0x1E: "LPDDR4", 0x23: "LPDDR5"}
"""The types of SMBIOS (type 17, offset 0x12) that the minimum takes."""
MEMORY_TYPES = {
    0x18: "DDR3",
    0x1A: "DDR4",
    0x1B: "LPDDR",
    0x1C: "LPDDR2",
    0x1D: "LPDDR3",
    0x22: "DDR5",
} | AT_LEAST_LPDDR4


@dataclass(frozen=True)
class HardwareCheck:
    """One line of the minimum: what is required, what was found, and whether that is enough."""

    name: str
    required: str
    found: str
    verdict: Verdict


def check(folder: Path, root: Path = Path("/"), read_speed: float | None = None) -> list[HardwareCheck]:
    """The lines of the minimum, for a store in `folder`.

    Parameters
    ----------
    folder
        Where vectors are kept: its disk is looked at.
    root
        Under which `proc` and `sys` are found.
    read_speed
        Bytes a second that were measured there; without it that line is unknown.
    """
    machine = _Machine(root)
    disk = machine.disk(os.stat(folder).st_dev)
    return [
        machine.cores(), machine.core_type(), machine.simd(), *machine.ram(), machine.memory_rate(),
        machine.storage(disk), machine.medium(disk), _speed(read_speed), machine.network(),
    ]  # fmt: skip


def read_ahead(folder: Path, root: Path = Path("/")) -> str | None:
    """What the system reads of the folder's disk beyond a page that is absent, as in 128 KiB: a cold read takes it."""
    disk = _Machine(root).disk(os.stat(folder).st_dev)
    text = text_of(disk.folder / "queue/read_ahead_kb").strip() if disk.folder is not None else ""
    return f"{text} KiB" if text.isdigit() else None


def _speed(measured: float | None) -> HardwareCheck:
    found = "not measured" if measured is None else f"{measured / 10**6:.0f} MB/s"
    return HardwareCheck("read speed", "500 MB/s", found, _at_least(measured, READ_SPEED))


def _at_least(found: float | None, required: float) -> Verdict:
    return UNKNOWN if found is None else PASS if found >= required else SHORTFALL


@dataclass(frozen=True)
class _Disk:
    """A block device as /sys has it; without a folder where a file system has none that is seen."""

    name: str
    folder: Path | None = None


class _Machine:
    """What `/proc` and `/sys` below a root show."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sys = root / "proc", root / "sys"
        self.processors = [_fields(part) for part in text_of(self.proc / "cpuinfo").split("\n\n")]

    def cores(self) -> HardwareCheck:
        """Cores that this process may use: not threads of one core, and no more than its control groups let run."""
        allowed = _numbers(_fields(text_of(self.proc / "self/status")).get("Cpus_allowed_list", ""))
        here = [each for each in self.processors if each.get("processor", "").isdigit()]
        usable = [each for each in here if not allowed or int(each["processor"]) in allowed]
        # ARM's cpuinfo names no cores: there each processor is one.
        ids = {(each.get("physical id"), each.get("core id", each["processor"])) for each in usable}
        cores: float | None = min([len(ids), *self._quota()]) if ids else None
        found = "not shown" if cores is None else f"{cores:g} of {len(here)} processors"
        return HardwareCheck("cores", "4 cores", found, _at_least(cores, CORES))

    def _quota(self) -> Iterator[float]:
        """Processors that control groups let run at a time, where they limit them."""
        for folder, version in control_groups("cpu", self.sys / "fs/cgroup", self.proc / "self/cgroup"):
            names = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            numbers = " ".join(text_of(folder / name) for name in names).split()
            if len(numbers) == 2 and all(re.fullmatch("[1-9][0-9]*", each) for each in numbers):
                yield int(numbers[0]) / int(numbers[1])

    def core_type(self) -> HardwareCheck:
        """A Cortex-A76 is one; which other cores are equivalent the document leaves open."""
        parts = {each["CPU part"] for each in self.processors if "CPU part" in each}
        names = sorted({each["model name"] for each in self.processors if "model name" in each})
        verdict: Verdict = PASS if parts == {hex(CORTEX_A76)} else UNKNOWN
        found = ", ".join([*names, *(f"ARM part {part}" for part in sorted(parts))]) or "not shown"
        return HardwareCheck("core type", "Cortex-A76 or equivalent", found, verdict)

    def simd(self) -> HardwareCheck:
        """All processors have AVX2, or NEON, which is `asimd` on 64 bits."""
        flags = [(each.get("flags") or each.get("Features") or "").split() for each in self.processors]
        flags = [each for each in flags if each]
        shared = [name for name in ("avx2", "asimd", "neon") if flags and all(name in each for each in flags)]
        verdict: Verdict = PASS if shared else SHORTFALL if flags else UNKNOWN
        found = shared[0] if shared else "neither" if flags else "not shown"
        return HardwareCheck("SIMD", "NEON or AVX2", found, verdict)

    def ram(self) -> Iterator[HardwareCheck]:
        """What this process may use, beside 8 GB and beside what the working set of LLaMA-2-7B needs."""
        total = re.search(r"^MemTotal:\s+(\d+) kB$", text_of(self.proc / "meminfo"), re.MULTILINE)
        size = None
        if total is not None:
            size = total_ram(self.sys / "fs/cgroup", self.proc / "self/cgroup", int(total[1]) * 1024)
        found = "not shown" if size is None else _decimal(size)
        need = required_ram(WORKING_SET)
        yield HardwareCheck("RAM", _decimal(RAM), found, _at_least(size, RAM))
        required = f"{_decimal(need)}, of which {_decimal(WORKING_SET)} are 7/10"
        yield HardwareCheck("RAM for the working set", required, found, _at_least(size, need))

    def memory_rate(self) -> HardwareCheck:
        """The slowest module by the tables of the firmware (SMBIOS, type 17), which root alone may read.

        Its rate is that of transfers: LPDDR4-3200 has a clock of 1600 MHz.
        """
        found = []
        for path in sorted((self.sys / "firmware/dmi/entries").glob("17-*/raw")):
            try:
                raw = path.read_bytes()
            except OSError:
                continue
            if len(raw) >= 0x17 and int.from_bytes(raw[0x0C:0x0E], "little"):  # a slot of size 0 is empty
                rate = int.from_bytes(raw[0x15:0x17], "little")
                configured = int.from_bytes(raw[0x20:0x22], "little") if len(raw) >= 0x22 else 0
                found.append((configured or rate, raw[0x12]))
        required = "LPDDR4 at 3200 MT/s"
        if not found or not all(rate for rate, _ in found):
            return HardwareCheck("memory rate", required, "not shown", UNKNOWN)
        rate, kind = min(found)
        name = MEMORY_TYPES.get(kind, f"type {kind:#x}")
        verdict = _at_least(rate, MEMORY_RATE)
        if verdict == PASS and kind not in AT_LEAST_LPDDR4:
            verdict = UNKNOWN  # other memory at this rate: the document compares it with none
        return HardwareCheck("memory rate", required, f"{name} at {rate} MT/s", verdict)

    def disk(self, device: int) -> _Disk:
        """The whole disk of a device number, or of the device that its file system is mounted from."""
        number = f"{os.major(device)}:{os.minor(device)}"
        at = self.sys / "dev/block" / number
        if not at.exists():
            fields = [line.split() for line in text_of(self.proc / "self/mountinfo").splitlines()]
            mounted = [each for each in fields if len(each) > 6 and each[2] == number and "-" in each]
            if not mounted:
                return _Disk("not shown")
            kind, source = mounted[-1][mounted[-1].index("-") + 1 :][:2]
            at = self.sys / "class/block" / Path(source).name
            if not source.startswith("/dev/") or not at.exists():
                return _Disk(kind)
        at = at.resolve()
        return _whole(at)

    def storage(self, disk: _Disk) -> HardwareCheck:
        """The size of the whole disk, in sectors of 512 bytes."""
        text = text_of(disk.folder / "size").strip() if disk.folder is not None else ""
        size = int(text) * 512 if text.isdigit() else None
        found = f"{disk.name}: {'size not shown' if size is None else _decimal(size)}"
        return HardwareCheck("storage", _decimal(STORAGE), found, _at_least(size, STORAGE))

    def medium(self, disk: _Disk) -> HardwareCheck:
        """NVMe passes whatever its speed; eMMC is not known to be 5.1; other media fall short, however fast."""
        verdict, found = _medium(disk)
        return HardwareCheck("medium", "NVMe SSD or eMMC 5.1", found, verdict)

    def network(self) -> HardwareCheck:
        """The best of the cards that are devices: bridges, loops and pairs of containers are none."""
        found: list[tuple[Verdict, str]] = []
        for card in sorted((self.sys / "class/net").glob("*")):
            if not (card / "device").exists():
                continue
            if (card / "wireless").exists() or (card / "phy80211").exists():
                found.append((UNKNOWN, f"{card.name}: wireless, generation not shown"))
                continue
            if text_of(card / "operstate").strip() == "down":
                found.append((SHORTFALL, f"{card.name}: down"))
                continue
            text = text_of(card / "speed").strip()
            speed = int(text) if text.isdigit() else None
            shown = "speed not shown" if speed is None else f"{speed} Mbit/s"
            found.append((_at_least(speed, NETWORK), f"{card.name}: {shown}"))
        if not found:
            shown = "none that is a device" if (self.sys / "class/net").is_dir() else "not shown"
            found = [(UNKNOWN, shown)]  # a container sees the cards of its host no more than their speed
        verdict, best = min(found, key=lambda each: (PASS, UNKNOWN, SHORTFALL).index(each[0]))
        return HardwareCheck("network", "1 Gbit/s Ethernet or Wi-Fi 6", best, verdict)


def _whole(at: Path) -> _Disk:
    """The disk that a partition is of, and below a mapped device the one disk that it is on."""
    if (at / "partition").exists():
        at = at.parent
    below = sorted((at / "slaves").glob("*"))
    return _whole(below[0].resolve()) if len(below) == 1 else _Disk(at.name, at)


def _medium(disk: _Disk) -> tuple[Verdict, str]:
    name, at = disk.name, disk.folder
    if at is None:
        return (SHORTFALL, f"{name}: memory, no storage") if name in ("tmpfs", "ramfs") else (UNKNOWN, name)
    if name.startswith("nvme"):
        return PASS, f"{name}: NVMe SSD"
    if name.startswith(("zram", "ram")):
        return SHORTFALL, f"{name}: memory, no storage"
    if name.startswith("mmcblk"):
        kind = text_of(at / "device/type").strip()
        if kind == "SD":
            return SHORTFALL, f"{name}: SD card"
        return UNKNOWN, f"{name}: {'eMMC' if kind == 'MMC' else 'card'}, version not shown"
    if text_of(at / "queue/rotational").strip() == "1" and name.startswith("sd"):
        return SHORTFALL, f"{name}: rotating disk"
    if name.startswith("sd") and text_of(at / "device/vendor").strip() == "ATA":
        return SHORTFALL, f"{name}: SATA SSD"
    return UNKNOWN, f"{name}: the medium is not shown"


def _fields(text: str) -> dict[str, str]:
    """Lines `name : value`."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def _numbers(text: str) -> set[int]:
    """Numbers and ranges as in 0-3,8."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if first.isdigit():
            found |= set(range(int(first), int(last if dash else first) + 1))
    return found


def _decimal(size: int) -> str:
    return f"{size / GB:.2f} GB"
