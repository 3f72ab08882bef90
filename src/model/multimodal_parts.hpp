#pragma once

/// What models that join a vision tower and a decoder have in common: how they read the nested config of
/// either, whatever decoder or tower it names.

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/decoder.hpp"
#include "model/parts.hpp"

namespace membudget {

/// A decoder under `model.language_model` with the head of the whole model.
[[nodiscard]] DecoderPlan language_model();

/// The `model_type` of the nested config `key`; `default_type` where it names none.
[[nodiscard]] std::string nested_type(const ConfigReader& config, std::string_view key,
                                      std::string_view default_type);

/// Configures the decoder of a nested config. Where that says nothing about tied embeddings, the
/// outer config decides.
void read_text(ConfigReader& text, ConfigReader& outer, ConfigureDecoder configure, DecoderPlan& plan);
/// The text config: nested, or flat in the outer one as older files have it.
void read_text_or_flat(ConfigReader& config, std::string_view class_name, std::string_view keys,
                       ConfigureDecoder configure, DecoderPlan& plan);
/// Reads the decoder whose `model_type` the nested config `key` names. `absent` are the keys of a class
/// that has defaults of its own for a config without that object; empty: those of `default_type`.
void read_any_text(ConfigReader& config, std::string_view key, std::string_view default_type,
                   DecoderPlan& plan, std::string_view absent = {});

/// What a wrapper fills in for a config without `vision_config`.
struct TowerDefault {
    std::string_view model_type, keys;
};
/// The parameters of the tower that `vision_config` names, under `prefix`; its hidden size.
std::int64_t add_any_tower(ConfigReader& config, Parts& parts, std::string_view prefix, TowerDefault absent);

/// Layers of a tower of `layers` before the hidden states that the projector reads, as `vision_feature_layer` says;
/// absent where it reads those of several, or the embeddings.
[[nodiscard]] std::optional<std::int64_t> layers_before_features(ConfigReader& config, std::int64_t layers);
/// Hidden states that the projector reads side by side, as `vision_feature_layer` says.
[[nodiscard]] std::int64_t joined_features(const ConfigReader& config);
/// Two linear modules with an activation between them.
void add_projector(Parts& parts, std::string_view prefix, std::int64_t in, std::int64_t hidden, bool bias);

}  // namespace membudget
