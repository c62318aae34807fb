"""Event files of TensorBoard, read without the code that writes them: records with CRC-32C, each a protobuf message."""

import struct


def crc32c(data):
    """Castagnoli's, bit by bit."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def masked(data):
    value = crc32c(data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """What the file holds; ValueError if a checksum is wrong or something is missing."""
    while data:
        (length, check), content = struct.unpack("<QI", data[:12]), data[12:]
        if masked(data[:8]) != check or len(content) < length + 4:
            raise ValueError("a damaged record")
        if masked(content[:length]) != struct.unpack("<I", content[length:length + 4])[0]:
            raise ValueError("a damaged record")
        yield content[:length]
        data = content[length + 4:]


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of each field of a message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            size, form = (8, "<d") if kind == 1 else (4, "<f")
            value, at = struct.unpack(form, data[at:at + size])[0], at + size
        yield key >> 3, value


def scalars(data):
    """(step, tag, value) of everything in tensorflow.Event: step = 2, summary = 5; in it value = 1: tag = 1, simple_value = 2."""
    for record in records(data):
        event = dict(fields(record))
        for number, value in fields(event.get(5, b"")):
            if number == 1:
                one = dict(fields(value))
                yield event.get(2, 0), one[1].decode(), one[2]
