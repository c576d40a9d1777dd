"""Right plans in files that state one false hash."""

from __future__ import annotations

from tmmu.examples.broken.editing import right
from tmmu.examples.broken.kinds import Wrong, wrong
from tmmu.examples.broken.models import skip

FALSE = bytes(range(32))


def _stating(field: str) -> Wrong:
    return Wrong(right(skip()), stated={field: FALSE})


@wrong("hashes", field="plan_hash")
def plan_hash_false() -> Wrong:
    """The plan hash is not that of the plan."""
    return _stating("plan_hash")


@wrong("hashes", field="layout_digest")
def layout_digest_false() -> Wrong:
    """The layout digest is not that of the plan."""
    return _stating("layout_digest")


@wrong("hashes", field="execution_order_hash")
def execution_order_hash_false() -> Wrong:
    """The hash of the execution order is not that of the steps."""
    return _stating("execution_order_hash")


@wrong("hashes", field="arena_config_hash")
def arena_config_hash_false() -> Wrong:
    """The hash of the arena configuration is not that of the arenas."""
    return _stating("arena_config_hash")


@wrong("hashes", field="shard_spec_hash")
def shard_spec_hash_false() -> Wrong:
    """The hash of the shard specification is not that of the specification."""
    return _stating("shard_spec_hash")


@wrong("hashes", field="file_digest")
def file_digest_false() -> Wrong:
    """The digest of the file is not that of its other keys."""
    return _stating("file_digest")
