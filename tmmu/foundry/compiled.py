"""A model on a device: a mapped GGUF file, whose weights are copied to private memory when they are first needed.

The host writes a part of a weight into one Shared staging buffer, and the device copies it to the Private buffer of
that weight (F7). The host writes the next part when that copy has ended. Blocks keep the encoding of the file, and
their order too, unless the kernels read another order: then the device stores them so when it copies them.
spec: FD6.3, FD5.1, FD10.6
"""

from __future__ import annotations

import os
import threading

from tmmu.foundry.device import Buffer, Device, Observer
from tmmu.foundry.forward import Operation, iterate_operations
from tmmu.foundry.kernels import BufferRegion, DeviceKernels, DeviceWeight
from tmmu.foundry.shapes import open_llama
from tmmu.foundry.storage import TensorType, storage_mode
from tmmu.foundry.weights import Weight
from tmmu.runtime.events import EventLog

STAGING_BYTES = 4 << 20
"""The largest size of the staging buffer; it is smaller if the largest weight is."""


class CompiledModel:
    """A GGUF model on a device, which sessions run.

    Parameters
    ----------
    path
        A GGUF file of the architecture `llama`; it is mapped, and must not be shortened while the model is open.
    device, kernels
        The device that runs the model, and its kernels. Other models may share the device.

    Raises
    ------
    TmmuError
        INVALID_WEIGHTS if the file cannot be run.
    """

    def __init__(self, path: str | os.PathLike[str], device: Device, kernels: DeviceKernels) -> None:
        self.file = open_llama(path, kernels.weight_types)
        self.device, self.kernels, self.shape = device, kernels, self.file.shape
        self._weights: dict[str, DeviceWeight] = {}
        self._lock = threading.Lock()

    @property
    def weights(self) -> dict[str, tuple[Weight, str]]:
        """Each weight of a pass with the form of its blocks, in the order of their first use, by `stored_name`.

        A weight that operations read in two forms is there twice.
        """
        found: dict[str, tuple[Weight, str]] = {}
        for operation in iterate_operations(self.shape, self.file.output.name):
            for name in operation.weights:
                weight = self.file.tensors[name]
                found[self.stored_name(operation, name)] = weight, self.kernels.choose_form(operation, weight)
        return found

    def stored_name(self, operation: Operation, name: str) -> str:
        """Return the name of a weight on the device: its form is added to it if it is not that of the file."""
        form = self.kernels.choose_form(operation, self.file.tensors[name])
        return f"{name} ({form})" if form else name

    @property
    def materialized(self) -> int:
        """The bytes of all weights that are on the device."""
        return sum(weight.region.size for weight in self._weights.values())

    def materialize(self, events: EventLog | None = None, session: int = 0) -> dict[str, DeviceWeight]:
        """Return all weights of a pass on the device, by name; stage the missing ones first, all or none of them.

        Raises OUT_OF_MEMORY if a buffer cannot be allocated; the buffers of this call are then released. O(bytes) the
        first time, O(1) later. spec: FD6.3, FD9.5
        """
        with self._lock:
            wanted = {name: found for name, found in self.weights.items() if name not in self._weights}
            if wanted:
                self._weights |= self._stage(wanted, events, session)
            return dict(self._weights)

    def _stage(
        self, wanted: dict[str, tuple[Weight, str]], events: EventLog | None, session: int
    ) -> dict[str, DeviceWeight]:
        device, made = self.device, {}
        largest = max(weight.blocks.nbytes for weight, _ in wanted.values())
        groups = {
            name: self.kernels.group_rows(form) * weight.blocks.shape[1] if form else 1
            for name, (weight, form) in wanted.items()
        }
        staging: Buffer | None = None
        try:
            staging = device.new_buffer(
                max(min(STAGING_BYTES, largest), *groups.values()), storage_mode(TensorType.STAGING, {}),
                "staging of weights",
            )  # fmt: skip
            for number, (name, (weight, form)) in enumerate(wanted.items(), 1):
                size = weight.blocks.nbytes
                buffer = device.new_buffer(size, storage_mode(TensorType.WEIGHTS, {}), name)
                made[name] = DeviceWeight(weight.type, weight.rows, weight.columns, BufferRegion(buffer, 0, size), form)
                content = weight.blocks.reshape(-1)
                step = staging.size // groups[name] * groups[name]
                for at in range(0, size, step):
                    part = content[at : at + step]
                    staging.contents()[: len(part)] = part
                    if not at and events is not None:
                        events("weight staged", session=session, weight=name, number=number)
                    is_last = at + step >= size
                    observer = _observer(events, session, name, number) if is_last and events is not None else None
                    if form:
                        source, target = BufferRegion(staging, 0, len(part)), BufferRegion(buffer, at, len(part))
                        device.wait(device.submit(self.kernels.store(weight, form, source, target), observer))
                    else:
                        device.wait(device.copy(staging, 0, buffer, at, len(part), observer))
        except BaseException:
            for weight_made in made.values():
                weight_made.region.buffer.release()
            raise
        finally:
            if staging is not None:
                staging.release()
        return made

    def close(self) -> None:
        """Release the weights. A session of the model must not be used afterwards."""
        with self._lock:
            for weight in self._weights.values():
                weight.region.buffer.release()
            self._weights = {}


def _observer(events: EventLog, session: int, weight: str, number: int) -> Observer:
    """Return an observer that logs when the copy of a weight is submitted and when it has ended."""

    def observe(what: str, command: int) -> None:
        if what == "submitted":
            events("weight copy submitted", session=session, weight=weight, number=number, submitted=command)
        else:
            events("weight copied", session=session, weight=weight, number=number, completed=command)

    return observe
