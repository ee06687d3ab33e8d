"""Builds and runs the images of the Dockerfile without a container engine: as root, with debootstrap and chroot.

A stage is a folder, a RUN a chroot into it, a COPY a copy. The base is what debootstrap makes of the same release.
Not imitated: layers and their cache, the network of a container, limits of memory and processes.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.dockerfile import Instruction, Stage, read_dockerfile, substitute

ROOT = Path(__file__).parent.parent
WATCHDOG_SECONDS = 900
RELEASES = {"debian:12-slim": "bookworm"}
_AUTHORITIES = "/opt/authorities.pem"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """The file system of a stage, and what its instructions say of a container's process."""

    root: Path
    env: Mapping[str, str] = field(
        default_factory=lambda: {"PATH": _PATH, "DEBIAN_FRONTEND": "noninteractive"}
    )
    user: str = "0:0"
    workdir: str = "/"

    def command(
        self,
        *words: str,
        user: str = "",
        writable: Mapping[str, Path] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Runs `words` inside, with these variables more. With `writable`, folders of ours by their path inside,
        all else is read-only. What it mounts is gone when it ends."""
        environment = {**self.env, **(variables or {})}
        mounts = f"mount --rbind /proc {self.root}/proc && mount --rbind /dev {self.root}/dev"
        if writable is not None:
            read_only = f"mount --bind {self.root} {self.root} && mount -o remount,bind,ro {self.root}"
            binds = [f"mount --bind {folder} {self.root}{path}" for path, folder in writable.items()]
            mounts = " && ".join([read_only, mounts, *binds])
        chroot = ["chroot", f"--userspec={user or self.user}", str(self.root), "/usr/bin/env", "-i"]
        chroot += [f"{name}={value}" for name, value in environment.items()]
        inside = ["/bin/sh", "-c", f'cd {self.workdir} && exec "$@"', "sh", *words]
        script = f'{mounts} && exec "$@"'
        return ["unshare", "--mount", "/bin/sh", "-c", script, "sh", *chroot, *inside]

    def run(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Carries `words` out to their end; `options` are those of `command`."""
        return subprocess.run(
            self.command(*words, **options),
            capture_output=True,
            text=True,
            timeout=WATCHDOG_SECONDS,
            check=False,
        )


class Builder:
    """Builds the stages of the Dockerfile below `folder`, each once."""

    def __init__(self, folder: Path, *, run_environment: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._stages = read_dockerfile(ROOT / "Dockerfile")
        self._run_environment = {"PIP_CERT": _AUTHORITIES, **(run_environment or {})}
        self._built: dict[str, Image] = {}

    def build(self, name: str) -> Image:
        """The image of that stage or base."""
        if name not in self._built:
            stage = self._stages.get(name)
            self._built[name] = self._build(stage) if stage else self._bootstrap(name)
        return self._built[name]

    def folder_in(self, name: str, path: str) -> Path:
        """A folder of a stage that is built, made if it is missing."""
        folder = Path(f"{self.build(name).root}{path}")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _bootstrap(self, base: str) -> Image:
        root = self._folder / base.replace(":", "-")
        _check("debootstrap", "--variant=minbase", RELEASES[base], str(root), "http://deb.debian.org/debian")
        for file in ("/etc/resolv.conf", "/etc/hosts"):
            shutil.copy(file, f"{root}{file}")
        # The authorities that this machine trusts, a proxy's among them.
        shutil.copy("/etc/ssl/certs/ca-certificates.crt", f"{root}{_AUTHORITIES}")
        return Image(root=root)

    def _build(self, stage: Stage) -> Image:
        parent = self.build(stage.parent)
        root = self._folder / stage.name
        _copy_tree(parent.root, root)
        image = replace(parent, root=root)
        arguments: dict[str, str] = {}
        for instruction in stage.instructions:
            image = self._carry_out(instruction, image, arguments)
        return image

    def _carry_out(self, instruction: Instruction, image: Image, arguments: dict[str, str]) -> Image:
        match instruction.name:
            case "RUN":
                self._run(instruction, image, arguments)
            case "COPY":
                self._copy(instruction, image)
            case "ARG":
                name, _, value = instruction.text.partition("=")
                arguments[name] = value
            case "ENV":
                words = [substitute(word, dict(image.env)) for word in instruction.words]
                return replace(image, env={**image.env, **dict(word.split("=", 1) for word in words)})
            case "USER":
                return replace(image, user=instruction.text)
            case "WORKDIR":
                Path(f"{image.root}{instruction.text}").mkdir(parents=True, exist_ok=True)
                return replace(image, workdir=instruction.text)
            case "LABEL" | "EXPOSE" | "HEALTHCHECK" | "ENTRYPOINT" | "CMD":
                pass
            case other:
                raise AssertionError(f"{other} is not understood here")
        return image

    def _run(self, instruction: Instruction, image: Image, arguments: Mapping[str, str]) -> None:
        done = image.run("/bin/sh", "-c", instruction.text, variables={**arguments, **self._run_environment})
        assert done.returncode == 0, f"{instruction.text}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"

    def _copy(self, instruction: Instruction, image: Image) -> None:
        *sources, target = instruction.words
        source_root = self.build(instruction.options["from"]).root if "from" in instruction.options else ROOT
        place = Path(f"{image.root}{target if target.startswith('/') else f'{image.workdir}/{target}'}")
        for source in sources:
            path = source_root / source.strip("/")
            if "from" in instruction.options:
                _copy_tree(path, place)
            elif path.is_dir():
                shutil.copytree(path, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(path, place)


def _copy_tree(source: Path, target: Path) -> None:
    """By hard links, which spares gigabytes: apt and pip replace a file that they change, and do not write into it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _check("cp", "--archive", "--link", str(source), str(target))


def _check(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=WATCHDOG_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def can_build() -> str:
    """Why no image can be built here; empty if one can."""
    missing = [program for program in ("debootstrap", "chroot", "unshare") if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)} not installed (apt-get install debootstrap)"
    if os.geteuid() != 0:
        return "chroot needs root"
    probe = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return "" if probe.returncode == 0 else "unshare --mount is not permitted"
