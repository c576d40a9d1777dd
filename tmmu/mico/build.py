"""The files that build the C: a Makefile that honours CC and CFLAGS, and a CMakeLists.txt. spec: MC2.6"""

from __future__ import annotations

from tmmu.mico.code import ModelCode


def makefile(code: ModelCode, has_file: bool) -> str:
    """Write a Makefile whose target is the program of `main.c`."""
    names, name = code.names, code.names.stem
    kernels, weights, main = (names.file(each) for each in ("kernels", "weights", "main"))
    rule = f"{weights}.o: {weights}.bin\n" if has_file else ""
    return f"""\
CFLAGS ?= -O3
OBJECTS = {name}.o {kernels}.o {weights}.o {main}.o

{name}: $(OBJECTS)
\t$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(OBJECTS) -lm

%.o: %.c
\t$(CC) -std=c99 $(CFLAGS) -c -o $@ $<

$(OBJECTS): {name}.h {kernels}.h {weights}.h
{rule}
clean:
\trm -f {name} $(OBJECTS)

.PHONY: clean
"""


def cmake(code: ModelCode, has_file: bool) -> str:
    """Write a CMakeLists.txt with a library `NAME_c` to link to, and the program."""
    names, name = code.names, code.names.stem
    kernels, weights, main = (names.file(each) for each in ("kernels", "weights", "main"))
    file = names.inner("weights_file").upper()
    properties = (
        f"set_source_files_properties({weights}.c PROPERTIES\n"
        f'  COMPILE_DEFINITIONS "{file}=\\"${{CMAKE_CURRENT_SOURCE_DIR}}/{weights}.bin\\""\n'
        f"  OBJECT_DEPENDS ${{CMAKE_CURRENT_SOURCE_DIR}}/{weights}.bin)\n"
        if has_file
        else ""
    )
    return f"""\
cmake_minimum_required(VERSION 3.13)
project({name} C)

set(CMAKE_C_STANDARD 99)
set(CMAKE_C_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_library({name}_c {name}.c {kernels}.c {weights}.c)
target_include_directories({name}_c PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
target_link_libraries({name}_c PUBLIC m)
{properties}
add_executable({name} {main}.c)
target_link_libraries({name} {name}_c)
"""
