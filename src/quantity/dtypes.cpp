#include "membudget/quantity.hpp"

namespace membudget {

namespace {

/// Block scales of quantized storage are no part of a row: they belong to the scheme that uses it.
constexpr Dtype kDtypes[] = {
    {"fp64", 64, "IEEE 754 double; torch.float64"},
    {"fp32", 32, "IEEE 754 single; torch.float32"},
    {"bf16", 16, "8 bits of exponent, 7 of fraction; torch.bfloat16"},
    {"fp16", 16, "IEEE 754 half; torch.float16"},
    {"fp8_e4m3", 8, "OCP 8-bit float, 3 bits of fraction; torch.float8_e4m3fn"},
    {"fp8_e5m2", 8, "OCP 8-bit float, 2 bits of fraction; torch.float8_e5m2"},
    {"int64", 64, "torch.int64"},
    {"int32", 32, "torch.int32"},
    {"int16", 16, "torch.int16"},
    {"int8", 8, "torch.int8"},
    {"uint8", 8, "torch.uint8"},
    {"bool", 8, "one byte per element; torch.bool"},
    {"int4", 4, "two elements per byte"},
    {"fp4", 4, "4-bit float, two elements per byte"},
    {"nf4", 4, "4-bit index into quantiles of a normal distribution, two elements per byte"},
};
static_assert(names_are_unique(kDtypes));

/// The row called `name`; a name without a row does not compile.
consteval const Dtype& row(std::string_view name) {
    const Dtype* found = Table<Dtype>(kDtypes).find(name);
    if (found == nullptr) throw "no such dtype";
    return *found;
}

}  // namespace

Table<Dtype> dtypes() { return Table<Dtype>(kDtypes); }

namespace dtype {
constinit const Dtype& fp64 = row("fp64");
constinit const Dtype& fp32 = row("fp32");
constinit const Dtype& bf16 = row("bf16");
constinit const Dtype& fp16 = row("fp16");
constinit const Dtype& fp8_e4m3 = row("fp8_e4m3");
constinit const Dtype& fp8_e5m2 = row("fp8_e5m2");
constinit const Dtype& int64 = row("int64");
constinit const Dtype& int32 = row("int32");
constinit const Dtype& int16 = row("int16");
constinit const Dtype& int8 = row("int8");
constinit const Dtype& uint8 = row("uint8");
constinit const Dtype& boolean = row("bool");
constinit const Dtype& int4 = row("int4");
constinit const Dtype& fp4 = row("fp4");
}  // namespace dtype

}  // namespace membudget
