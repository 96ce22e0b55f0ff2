#!/usr/bin/env python3
"""What comes into the build, by `cargo metadata` and deny.toml alone: seconds, and nothing to install.

    tools/supply_chain.py

Every crate of both lock files: from the usual registry with its checksum, under a licence of the list, none of
those that are banned, no second version but those that deny.toml gives a reason for, no newer Rust than ours. Ends
with 1 and a line for each that is not so. `tools/supply-chain deny` asks cargo-deny the same, and for advisories
besides."""

import json
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"
RULES = tomllib.loads((ROOT / "deny.toml").read_text())
OURS = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]


def allowed(expression, licences):
    """True if an SPDX expression can be met: `A OR B` by either, `A AND B` by both; `/` is an old way to write OR."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def either():
        found = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            found = both() or found
        return found

    def both():
        found = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            found = one() and found
        return found

    def one():
        token = tokens.pop(0)
        if token == "(":
            found = either()
            tokens.pop(0)
            return found
        if tokens and tokens[0] == "WITH":
            del tokens[:2]
        return token in licences

    return either()


def version(text):
    return tuple(int(part) for part in text.split("."))


def of_metadata():
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--all-features"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    licences = RULES["licenses"]["allow"]
    for package in metadata["packages"]:
        name = f"{package['name']} {package['version']}"
        if package["source"] is None:
            continue
        if not package["license"] or not allowed(package["license"], licences):
            yield f"{name}: licence {package['license']}"
        if package["rust_version"] and version(package["rust_version"]) > version(OURS):
            yield f"{name}: asks for Rust {package['rust_version']}, we promise {OURS}"


def of_lock_files():
    banned = {rule["crate"] for rule in RULES["bans"]["deny"]}
    reasons = {rule["crate"] for rule in RULES["bans"]["skip"]}
    for lock in ["Cargo.lock", "fuzz/Cargo.lock"]:
        if subprocess.run(["git", "ls-files", "--error-unmatch", lock], cwd=ROOT, capture_output=True).returncode:
            yield f"{lock}: not committed"
        packages = tomllib.loads((ROOT / lock).read_text())["package"]
        versions = {}
        for package in packages:
            name = f"{lock}: {package['name']} {package['version']}"
            if package["name"] in banned:
                yield f"{name}: banned"
            if "source" in package:
                if package["source"] != REGISTRY:
                    yield f"{name}: from {package['source']}"
                if "checksum" not in package:
                    yield f"{name}: no checksum"
            versions.setdefault(package["name"], []).append(package["version"])
        for crate, several in versions.items():
            known = [v for v in several if any(f"{crate}@{v}".startswith(reason) for reason in reasons)]
            if lock == "Cargo.lock" and len(several) - len(known) > 1:
                yield f"{lock}: {crate} in versions {', '.join(several)}"


def main():
    found = [*of_lock_files(), *of_metadata()]
    print("\n".join(found) or "supply chain: licences, sources, checksums, bans, versions and Rust are as deny.toml has them")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
