"""Web config files for tests: certificates of a throwaway authority, bcrypt hashes of the lowest cost."""

import os
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import bcrypt
import trustme
import yaml


def bcrypt_hash(password: str) -> str:
    """As `htpasswd -nB` prints it, but quick to check."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


def token_digest(token: str) -> str:
    """As `printf %s TOKEN | sha256sum` prints it."""
    return sha256(token.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Authority:
    """Issues certificates into `directory`; `ca_file` is its own."""

    directory: Path
    authority: trustme.CA
    ca_file: Path

    @classmethod
    def found(cls, directory: Path, name: str = "ca") -> "Authority":
        authority = trustme.CA()
        ca_file = directory / f"{name}.crt"
        authority.cert_pem.write_to_path(str(ca_file))
        return cls(directory=directory, authority=authority, ca_file=ca_file)

    def issue(
        self, name: str, identity: str = "127.0.0.1", *, end: datetime | None = None
    ) -> tuple[Path, Path]:
        """Certificate and key file; those of the same name are replaced. Without `end` it is good for years."""
        issued = self.authority.issue_cert(identity, not_after=end)
        certificate, key = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        for path, content in (
            (certificate, b"".join(part.bytes() for part in issued.cert_chain_pems)),
            (key, issued.private_key_pem.bytes()),
        ):
            replace(path, content)
        return certificate, key


def replace(path: Path, content: bytes) -> None:
    """In one step, as a careful operator does."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)


def write_web_config(path: Path, **sections: Any) -> Path:
    """The file with these sections."""
    replace(path, yaml.safe_dump(sections).encode())
    return path
