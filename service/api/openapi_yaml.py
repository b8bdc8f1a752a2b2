"""Writes the OpenAPI document as YAML, whose library only this needs."""

import yaml
from fastapi import FastAPI


def openapi_yaml(app: FastAPI) -> str:
    """Return the document as YAML, as it is committed in `openapi.yaml`."""
    return yaml.dump(app.openapi(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    """Writes every value in full, without anchors."""

    def ignore_aliases(self, data: object) -> bool:
        """Return true: a value that occurs again is written again."""
        del data
        return True
