"""The variables of a session, and the memory that control groups leave. spec: FD7.1 to FD7.4, FD3.1"""

from __future__ import annotations

from pathlib import Path

import pytest

from tmmu.foundry.environment import VARIABLES, Settings, list_settings
from tmmu.foundry.failures import InvalidSetting
from tmmu.runtime.ram import recommended_working_set, total_ram

DOCUMENT = """
| `METALLIC_MAX_CONTEXT_LEN` | Model Default | Hard cap on the sequence length. |
| `METALLIC_KV_MEMORY_BUDGET_MB` | Auto | Max VRAM allowed for KV cache. |
| `METALLIC_INTERMEDIATES_SHARED` | 0 | Force activations to be host-visible (debug). |
| `METALLIC_KV_CACHE_SHARED` | 0 | Force KV cache to be host-visible (debug). |
| `METALLIC_PREFILL_CHUNK_SIZE` | 32 | Batch size for prompt processing. |
| `METALLIC_FOUNDRY_DECODE_BATCH_SIZE` | 64 | Batch size for speculative decoding. |
"""


def test_the_table_is_the_documents():
    rows = [f"| `{row.name}` | {row.default} | {row.description} |" for row in list_settings({})]
    assert rows == DOCUMENT.strip().splitlines()
    assert [row.value for row in list_settings({})] == [row.default for row in list_settings({})]


def test_the_defaults_of_settings_are_those_of_the_table():
    settings = Settings()
    assert settings == Settings.of({}) == Settings.of({"UNRELATED": "x"})
    for variable in VARIABLES:
        value = getattr(settings, variable.field)
        assert variable.default in ("Model Default", "Auto") if value is None else str(int(value)) == variable.default


@pytest.mark.parametrize("name", ["METALLIC_INTERMEDIATES_SHARED", "METALLIC_KV_CACHE_SHARED"])
def test_a_boolean_is_off_by_five_texts_and_on_by_any_other(name):
    """spec: FD7.3"""
    for text in ("", " ", "0", "false", "no", "off", "FALSE", " Off "):
        assert Settings.of({name: text}).forced == dict.fromkeys(Settings().forced, False)
    for text in ("1", "true", "yes", "on", "TRUE", "2", "00", "debug"):
        assert Settings.of({name: text}).forced == {**Settings().forced, name: True}
        assert [row.value for row in list_settings({name: text}) if row.name == name] == ["1"]


NUMBERS = [v for v in VARIABLES if v.range is not None]


@pytest.mark.parametrize("variable", NUMBERS, ids=lambda v: v.name)
def test_a_number_is_decimal_and_in_range(variable):
    """spec: FD7.2, FD7.4"""
    low, high = variable.range
    for number in (low, low + 1, high - 1, high):
        assert getattr(Settings.of({variable.name: f" {number}\n"}), variable.field) == number
    assert Settings.of({variable.name: " "}) == Settings()
    for text in (str(low - 1), str(high + 1), "-1", "+8", "1e2", "0x10", "1_0", "٣", "8.0", "many", "9" * 31):
        with pytest.raises(InvalidSetting) as refused:
            Settings.of({variable.name: text})
        assert refused.value.place == variable.name
        assert f"{low} to {high}" in refused.value.fix
        with pytest.raises(InvalidSetting):
            list_settings({variable.name: text})


PHYSICAL = 64 << 30


def groups(folder: Path, own: str, files: dict[str, str]) -> tuple[Path, Path, int]:
    (folder / "self").write_text(own)
    for name, text in files.items():
        path = folder / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "groups", folder / "self", PHYSICAL


ONE, TWO = "memory.limit_in_bytes", "memory.max"
CASES = {
    "no control groups": ("", {}, PHYSICAL),
    "version 2": ("0::/a/b\n", {f"a/b/{TWO}": "1000\n", f"a/{TWO}": "max\n"}, 1000),
    "a group around it has less": ("0::/a/b\n", {f"a/b/{TWO}": "1000\n", f"a/{TWO}": "900\n"}, 900),
    "the root of a container": ("0::/\n", {TWO: "700\n"}, 700),
    "max everywhere": ("0::/a\n", {f"a/{TWO}": "max\n", TWO: "max\n"}, PHYSICAL),
    "a group beside it does not count": ("0::/a\n", {f"b/{TWO}": "5\n", f"a/{TWO}": "80\n"}, 80),
    "version 1": ("4:memory:/x/y\n", {f"memory/x/y/{ONE}": "800\n", f"memory/x/{ONE}": "9223372036854771712\n"}, 800),
    "version 1 of a container": ("4:memory:/docker/1\n", {f"memory/{ONE}": "600\n"}, 600),
    "version 1 around it": ("4:memory:/x/y\n", {f"memory/x/y/{ONE}": "800\n", f"memory/x/{ONE}": "300"}, 300),
    "controllers together": ("4:cpu,memory:/x\n", {f"cpu,memory/x/{ONE}": "800\n"}, 800),
    "a controller of another name": ("4:cpu:/x\n", {f"cpu/x/{ONE}": "8\n", f"memory/x/{ONE}": "8\n"}, PHYSICAL),
    "both versions": ("4:memory:/x\n0::/z\n", {f"memory/x/{ONE}": "800\n", f"unified/z/{TWO}": "750\n"}, 750),
    "a path out of the mount": ("0::/../z\n", {TWO: "500\n", f"../z/{TWO}": "5\n"}, 500),
    "more than the machine has": ("0::/a\n", {f"a/{TWO}": str(2 * PHYSICAL)}, PHYSICAL),
    "what is no number": ("0::/a\n", {f"a/{TWO}": "-1\n", TWO: "٣"}, PHYSICAL),
    "lines that are none": ("what\n:\n0::\n", {TWO: "400"}, 400),
}


@pytest.mark.parametrize("name", CASES)
def test_the_least_limit_of_all_groups_holds(tmp_path, name):
    own, files, expected = CASES[name]
    places = groups(tmp_path, own, files)
    assert total_ram(*places) == expected
    assert recommended_working_set(*places) == expected * 3 // 4


def test_what_cannot_be_read_limits_nothing(tmp_path):
    folder, own, physical = groups(tmp_path, "0::/a\n", {f"a/{TWO}/x": "a folder where the file should be", TWO: "80"})
    assert total_ram(folder, own, physical) == 80
    (folder / TWO).write_bytes(b"\xff\xff")
    assert total_ram(folder, own, physical) == physical
    assert total_ram(folder, tmp_path / "nothing", physical) == physical


def test_this_machine_has_memory():
    assert 0 < recommended_working_set() < total_ram()
