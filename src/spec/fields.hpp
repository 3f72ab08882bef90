#pragma once

#include "spec/reader.hpp"

namespace membudget {

/// The rows of the spec's own keys, and of those objects that need a reader of their own.
[[nodiscard]] FieldTable<Spec> spec_fields();

void read_model(const Cursor& at, Spec& into);
void model_keys(std::string_view pointer, std::vector<SpecKey>& out);

void read_lora(const Cursor& at, TrainingSpec& into);
void lora_keys(std::string_view pointer, std::vector<SpecKey>& out);

void read_terms(const Cursor& at, Spec& into);
void term_keys(std::string_view pointer, std::vector<SpecKey>& out);

}  // namespace membudget
