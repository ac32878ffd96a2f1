"""Safetensors files as Python's own library has it: the header's length, the header, the tensors' bytes."""

import json
import pathlib
import struct

Tensors = dict  # by name: (dtype, shape, bytes)


def read(file: pathlib.Path) -> Tensors:
    data = file.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header, data = json.loads(data[8:8 + size]), memoryview(data)[8 + size:]
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], bytes(data[slice(*entry["data_offsets"])]))
            for name, entry in header.items()}


def write(file: pathlib.Path, tensors: Tensors) -> None:
    header, offset = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(file, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            out.write(data)
