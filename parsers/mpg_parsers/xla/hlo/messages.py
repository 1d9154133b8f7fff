"""The protobuf messages of HLO programs: only the fields that are read.

Field numbers: xla/service/hlo.proto and xla/xla_data.proto of openxla/xla. Shapes, metadata and literals are
declared as bytes, which have the same form on the wire: they are decoded on demand, equal shapes once.
"""

from __future__ import annotations

from typing import Any

from mpg_parsers.xla.messages import Field, classes

Message = Any  # of a class that is made at run time, so that no checker knows its fields

# message -> fields: name, number, type; a "*" after the type: repeated
_MESSAGES: dict[str, tuple[tuple[str, int, str], ...]] = {
    "HloProto": (("hlo_module", 1, "HloModule"),),
    "HloModule": (
        ("name", 1, "bytes"),
        ("entry_computation_name", 2, "bytes"),
        ("computations", 3, "Computation*"),
        ("entry_computation_id", 6, "int64"),
        ("schedule", 7, "bytes"),
        ("spmd_parameters_shardings", 14, "Sharding*"),
        ("device_assignment", 15, "DeviceAssignment"),
        ("stack_frame_index", 17, "StackFrameIndex"),
        ("frontend_attributes", 19, "Attributes"),
    ),
    "Computation": (
        ("name", 1, "bytes"),
        ("instructions", 2, "Instruction*"),
        ("id", 5, "int64"),
        ("root_id", 6, "int64"),
    ),
    "Instruction": (
        ("name", 1, "bytes"),
        ("opcode", 2, "bytes"),
        ("shape", 3, "bytes"),
        ("metadata", 7, "bytes"),
        ("literal", 8, "bytes"),
        ("parameter_number", 9, "int64"),
        ("fusion_kind", 11, "bytes"),
        ("tuple_index", 13, "int64"),
        ("window", 15, "Window"),
        ("convolution_dimension_numbers", 16, "ConvolutionDimensions"),
        ("custom_call_target", 28, "bytes"),
        ("dot_dimension_numbers", 30, "DotDimensions"),
        ("fft_length", 32, "int64*"),
        ("id", 35, "int64"),
        ("operand_ids", 36, "int64*"),
        ("called_computation_ids", 38, "int64*"),
        ("sharding", 40, "Sharding"),
        ("backend_config", 43, "bytes"),
        ("is_host_transfer", 47, "bool"),
        ("replica_groups", 49, "ReplicaGroup*"),
        ("feature_group_count", 50, "int64"),
        ("precision_config", 51, "Precision"),
        ("batch_group_count", 58, "int64"),
        ("comparison_direction", 63, "bytes"),
        ("collective_device_list", 87, "CollectiveDevices"),
        ("ragged_dot_dimension_numbers", 90, "RaggedDotDimensions"),
    ),
    "ReplicaGroup": (("replica_ids", 1, "int64*"),),
    # groups one by one, or (iota) their number and size
    "CollectiveDevices": (("replica_groups", 1, "ReplicaGroup*"), ("iota", 2, "IotaGroups")),
    "IotaGroups": (("groups", 1, "int64"), ("size", 2, "int64")),
    "Window": (("dimensions", 1, "WindowDimension*"),),
    "WindowDimension": (
        ("size", 1, "int64"),
        ("stride", 2, "int64"),
        ("padding_low", 3, "int64"),
        ("padding_high", 4, "int64"),
        ("window_dilation", 5, "int64"),
        ("base_dilation", 6, "int64"),
    ),
    "ConvolutionDimensions": (
        ("kernel_output_feature_dimension", 4, "int64"),
        ("kernel_spatial_dimensions", 6, "int64*"),
        ("input_batch_dimension", 7, "int64"),
        ("input_feature_dimension", 8, "int64"),
        ("output_feature_dimension", 10, "int64"),
        ("input_spatial_dimensions", 11, "int64*"),
        ("output_spatial_dimensions", 12, "int64*"),
    ),
    "DotDimensions": (
        ("lhs_contracting_dimensions", 1, "int64*"),
        ("rhs_contracting_dimensions", 2, "int64*"),
        ("lhs_batch_dimensions", 3, "int64*"),
        ("rhs_batch_dimensions", 4, "int64*"),
    ),
    "RaggedDotDimensions": (
        ("dot_dimension_numbers", 1, "DotDimensions"),
        ("lhs_ragged_dimensions", 2, "int64*"),
        ("rhs_group_dimensions", 3, "int64*"),
    ),
    "Precision": (("operand_precision", 1, "int64*"), ("algorithm", 2, "int64")),
    "Sharding": (("tile_assignment_dimensions", 3, "int64*"), ("tuple_shardings", 5, "Sharding*")),
    "DeviceAssignment": (("replica_count", 1, "int64"), ("computation_count", 2, "int64")),
    "Attributes": (("map", 1, "Attribute*"),),
    "Attribute": (("key", 1, "bytes"), ("value", 2, "bytes")),
    "StackFrameIndex": (
        ("file_names", 1, "bytes*"),
        ("file_locations", 3, "FileLocation*"),
        ("stack_frames", 4, "StackFrame*"),
    ),
    "FileLocation": (("file_name_id", 1, "int64"), ("line", 3, "int64")),
    "StackFrame": (("file_location_id", 1, "int64"),),
    "Metadata": (
        ("op_name", 2, "bytes"),
        ("source_file", 3, "bytes"),
        ("source_line", 4, "int64"),
        ("stack_frame_id", 15, "int64"),
    ),
    "Shape": (
        ("element_type", 2, "int64"),
        ("dimensions", 3, "int64*"),
        ("tuple_shapes", 4, "Shape*"),
        ("layout", 5, "Layout"),
    ),
    "Layout": (
        ("minor_to_major", 1, "int64*"),
        ("tiles", 6, "Tile*"),
        ("element_size_in_bits", 7, "int64"),
        ("memory_space", 8, "int64"),
    ),
    "Tile": (("dimensions", 1, "int64*"),),
    "Literal": (
        ("s32s", 4, "int64*"),
        ("s64s", 5, "int64*"),
        ("u32s", 6, "int64*"),
        ("u64s", 7, "int64*"),
        ("u8s", 3, "bytes"),
        ("s8s", 15, "bytes"),
        ("u16s", 16, "bytes"),
        ("s16s", 17, "bytes"),
    ),
}


def _field(name: str, number: int, kind: str) -> Field:
    return Field(name, number, kind.removesuffix("*"), repeated=kind.endswith("*"))


_CLASSES = classes(
    "mpg_hlo", {name: [_field(*field) for field in fields] for name, fields in _MESSAGES.items()}
)

HloProto = _CLASSES["HloProto"]
HloModule = _CLASSES["HloModule"]
Metadata = _CLASSES["Metadata"]
Shape = _CLASSES["Shape"]
Literal = _CLASSES["Literal"]
