"""Compare the locked versions with the known faults of packages: `make audit`, which names the program pip-audit.

Exit code 0: no fault is known. 1: one is. 3: the service was out of reach, so that nothing was compared.
"""

from __future__ import annotations

import json
import subprocess
import sys

OUT_OF_REACH = 3


def main(program: str, *locks: str) -> int:
    """Print what is known, and what could not be compared."""
    words = [word for lock in locks for word in ("-r", lock)]
    options = ["--require-hashes", "--disable-pip", "--progress-spinner", "off", "-f", "json"]
    done = subprocess.run([program, *words, *options], capture_output=True, text=True, check=False)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        lines = (done.stderr or done.stdout).strip().splitlines()
        print(
            f"out of reach: pip-audit had no answer ({lines[-1] if lines else 'it printed nothing'})", file=sys.stderr
        )
        return OUT_OF_REACH
    compared = [package for package in packages if "skip_reason" not in package]
    for package in compared:
        for fault in package["vulns"]:
            fixed = ", ".join(fault["fix_versions"]) or "no version"
            print(f"{package['name']} {package['version']}: {fault['id']}, mended in {fixed}")
    left_out = [package["name"] for package in packages if "skip_reason" in package]
    if left_out:
        print(f"not compared: {len(left_out)} of {len(packages)} packages: {', '.join(left_out)}", file=sys.stderr)
    if not compared:
        print("out of reach: pip-audit's service knows none of the packages", file=sys.stderr)
        return OUT_OF_REACH
    found = sum(len(package["vulns"]) for package in compared)
    print(f"{found} known faults in {len(compared)} packages")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
