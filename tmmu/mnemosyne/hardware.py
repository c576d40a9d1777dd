"""τ: compare this machine with the document's minimum, line by line.

Each line passes, falls short, or is unknown because the machine does not show the value. A virtual disk hides its
medium, and a virtual card its speed; the tables of the firmware are readable by root only. All files are read below one
root, so that copies of `/proc` and `/sys` of another machine can be checked. Linux. spec: MN6.1 to MN6.6
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
"""The document's GB and MB/s are decimal."""

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
"""The memory types of SMBIOS (type 17, offset 0x12) that satisfy the minimum."""
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
    """One line of the minimum: the requirement, the value found, and whether that is enough."""

    name: str
    required: str
    found: str
    verdict: Verdict


def check_hardware(folder: Path, root: Path = Path("/"), read_speed: float | None = None) -> list[HardwareCheck]:
    """Compare the machine with each line of the minimum, for a store in `folder`.

    Parameters
    ----------
    folder
        Where vectors are kept: its disk is checked.
    root
        The folder that contains `proc` and `sys`.
    read_speed
        The measured bytes a second of that disk; without it that line is unknown.
    """
    machine = _Machine(root)
    disk = machine.disk(os.stat(folder).st_dev)
    return [
        machine.cores(), machine.core_type(), machine.simd(), *machine.ram(), machine.memory_rate(),
        machine.storage(disk), machine.medium(disk), _speed(read_speed), machine.network(),
    ]  # fmt: skip


def read_ahead(folder: Path, root: Path = Path("/")) -> str | None:
    """Return the read-ahead of the folder's disk, such as "128 KiB", which each cold read costs; None if not shown."""
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
    """A block device of /sys. `folder` is None if the file system shows no device."""

    name: str
    folder: Path | None = None


class _Machine:
    """The properties of a machine that `/proc` and `/sys` below a root show."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sys = root / "proc", root / "sys"
        self.processors = [_fields(part) for part in text_of(self.proc / "cpuinfo").split("\n\n")]

    def cores(self) -> HardwareCheck:
        """Check the cores that this process may use.

        Threads of a core count once; control groups may limit the number.
        """
        allowed = _numbers(_fields(text_of(self.proc / "self/status")).get("Cpus_allowed_list", ""))
        here = [each for each in self.processors if each.get("processor", "").isdigit()]
        usable = [each for each in here if not allowed or int(each["processor"]) in allowed]
        # ARM's cpuinfo names no cores: there each processor is one.
        ids = {(each.get("physical id"), each.get("core id", each["processor"])) for each in usable}
        cores: float | None = min([len(ids), *self._quota()]) if ids else None
        found = "not shown" if cores is None else f"{cores:g} of {len(here)} processors"
        return HardwareCheck("cores", "4 cores", found, _at_least(cores, CORES))

    def _quota(self) -> Iterator[float]:
        """Yield the processors that each limiting control group lets run at a time."""
        for folder, version in control_groups("cpu", self.sys / "fs/cgroup", self.proc / "self/cgroup"):
            names = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            numbers = " ".join(text_of(folder / name) for name in names).split()
            if len(numbers) == 2 and all(re.fullmatch("[1-9][0-9]*", each) for each in numbers):
                yield int(numbers[0]) / int(numbers[1])

    def core_type(self) -> HardwareCheck:
        """Check the type of the cores.

        Only Cortex-A76 passes: the document does not define which cores are equivalent.
        """
        parts = {each["CPU part"] for each in self.processors if "CPU part" in each}
        names = sorted({each["model name"] for each in self.processors if "model name" in each})
        verdict: Verdict = PASS if parts == {hex(CORTEX_A76)} else UNKNOWN
        found = ", ".join([*names, *(f"ARM part {part}" for part in sorted(parts))]) or "not shown"
        return HardwareCheck("core type", "Cortex-A76 or equivalent", found, verdict)

    def simd(self) -> HardwareCheck:
        """Check that all processors have AVX2 or NEON (`asimd` on 64 bits)."""
        flags = [(each.get("flags") or each.get("Features") or "").split() for each in self.processors]
        flags = [each for each in flags if each]
        shared = [name for name in ("avx2", "asimd", "neon") if flags and all(name in each for each in flags)]
        verdict: Verdict = PASS if shared else SHORTFALL if flags else UNKNOWN
        found = shared[0] if shared else "neither" if flags else "not shown"
        return HardwareCheck("SIMD", "NEON or AVX2", found, verdict)

    def ram(self) -> Iterator[HardwareCheck]:
        """Check the memory that this process may use: against 8 GB, and against the working set of LLaMA-2-7B."""
        total = re.search(r"^MemTotal:\s+(\d+) kB$", text_of(self.proc / "meminfo"), re.MULTILINE)
        size = None
        if total is not None:
            size = total_ram(self.sys / "fs/cgroup", self.proc / "self/cgroup", int(total[1]) * 1024)
        found = "not shown" if size is None else _decimal(size)
        need = required_ram(WORKING_SET)
        yield HardwareCheck("RAM", _decimal(RAM), found, _at_least(size, RAM))
        required = f"{_decimal(need)}: 7/10 of it are {_decimal(WORKING_SET)}"
        yield HardwareCheck("RAM for the working set", required, found, _at_least(size, need))

    def memory_rate(self) -> HardwareCheck:
        """Check the slowest memory module of the firmware's tables (SMBIOS, type 17), which only root may read.

        The rate counts transfers: LPDDR4-3200 has a clock of 1600 MHz.
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
            verdict = UNKNOWN  # the document does not compare other memory types
        return HardwareCheck("memory rate", required, f"{name} at {rate} MT/s", verdict)

    def disk(self, device: int) -> _Disk:
        """Return the whole disk of a device number, or of the device that its file system is mounted from."""
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
        """Check the size of the whole disk, which /sys counts in sectors of 512 bytes."""
        text = text_of(disk.folder / "size").strip() if disk.folder is not None else ""
        size = int(text) * 512 if text.isdigit() else None
        found = f"{disk.name}: {'size not shown' if size is None else _decimal(size)}"
        return HardwareCheck("storage", _decimal(STORAGE), found, _at_least(size, STORAGE))

    def medium(self, disk: _Disk) -> HardwareCheck:
        """Check the storage medium.

        NVMe passes at any speed, eMMC is unknown (its version is not shown), others fall short.
        """
        verdict, found = _medium(disk)
        return HardwareCheck("medium", "NVMe SSD or eMMC 5.1", found, verdict)

    def network(self) -> HardwareCheck:
        """Check the best of the network cards that are devices: bridges, loopbacks and virtual pairs do not count."""
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
            found = [(UNKNOWN, shown)]  # a container sees neither the host's cards nor their speed
        verdict, best = min(found, key=lambda each: (PASS, UNKNOWN, SHORTFALL).index(each[0]))
        return HardwareCheck("network", "1 Gbit/s Ethernet or Wi-Fi 6", best, verdict)


def _whole(at: Path) -> _Disk:
    """Return the disk of a partition. Below a mapped device, return the one disk that it is on."""
    if (at / "partition").exists():
        at = at.parent
    below = sorted((at / "slaves").glob("*"))
    return _whole(below[0].resolve()) if len(below) == 1 else _Disk(at.name, at)


def _medium(disk: _Disk) -> tuple[Verdict, str]:
    name, at = disk.name, disk.folder
    if at is None:
        return (SHORTFALL, f"{name}: memory, not storage") if name in ("tmpfs", "ramfs") else (UNKNOWN, name)
    if name.startswith("nvme"):
        return PASS, f"{name}: NVMe SSD"
    if name.startswith(("zram", "ram")):
        return SHORTFALL, f"{name}: memory, not storage"
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
    """Parse lines `name : value`."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def _numbers(text: str) -> set[int]:
    """Parse numbers and ranges, such as "0-3,8"."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if first.isdigit():
            found |= set(range(int(first), int(last if dash else first) + 1))
    return found


def _decimal(size: int) -> str:
    return f"{size / GB:.2f} GB"
