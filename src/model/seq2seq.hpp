#pragma once

/// Encoder-decoders: two chains of blocks, the second of which attends to the end of the first.

#include <initializer_list>
#include <string_view>
#include <vector>

#include "model/parts.hpp"

namespace membudget {

/// Tensors that the blocks of two stacks pass on, of which `memory` is the encoder's last hidden states;
/// all of them are arguments by position.
[[nodiscard]] std::vector<Tensor> passed_tensors(std::initializer_list<std::string_view> names, std::size_t memory,
                                                 std::int64_t hidden);

void configure_t5(ConfigReader& config, Parts& parts);
void configure_umt5(ConfigReader& config, Parts& parts);
void configure_bart(ConfigReader& config, Parts& parts);
void configure_mbart(ConfigReader& config, Parts& parts);
void configure_pegasus(ConfigReader& config, Parts& parts);
void configure_m2m_100(ConfigReader& config, Parts& parts);
void configure_plbart(ConfigReader& config, Parts& parts);
void configure_blenderbot(ConfigReader& config, Parts& parts);
void configure_blenderbot_small(ConfigReader& config, Parts& parts);
void configure_marian(ConfigReader& config, Parts& parts);
void configure_whisper(ConfigReader& config, Parts& parts);

}  // namespace membudget
