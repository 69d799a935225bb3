"""The types of the requests and records, by their names in the OpenAPI document."""

from ._generated.schema import *
