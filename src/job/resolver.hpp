#pragma once

/// The one pass from a spec to a job; its parts follow the sections of the spec.

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "membudget/job.hpp"

namespace membudget {

class Resolver {
public:
    Resolver(const Spec& spec, const ResolveInputs& inputs);
    [[nodiscard]] Result<Job> run();
    [[nodiscard]] Result<Model> only_model();

private:
    void model();
    void check_simulated();
    /// Finds the model's config, where the spec describes one; false after a diagnostic.
    bool find_config();
    /// The model that the spec describes; null after a diagnostic, and where it describes none.
    [[nodiscard]] std::shared_ptr<const Model> build();
    void parallelism();
    void precision();
    void optimizer();
    /// Adapters, freezing and a quantized base change the model.
    [[nodiscard]] bool asks_for_adaptation() const;
    void adapt();
    [[nodiscard]] std::optional<QuantizedBase> quantized_base();
    [[nodiscard]] std::optional<LoraSpec> lora_spec();
    [[nodiscard]] std::optional<Lora> lora(const LoraSpec& spec);
    void shape();
    void images();
    void image_size();
    void image_tokens();
    void drop_long_windows();
    void leave_unused();
    [[nodiscard]] bool asks_for_checkpointing() const;
    void check_offload();
    [[nodiscard]] bool offloads_states() const;
    void offload();
    void check_host_update();
    void checkpointing();
    void recompute_cost();
    void kernels();
    void experts();
    void attention();
    void check_flash_package(const NamedAt& attention);
    void loss();
    void options();
    void stated_terms();
    void device();
    void allocator();
    void unsupported();

    const OptimizerImplementation* implementation_of(const Optimizer& row,
                                                     const std::optional<NamedAt>& given);
    void optimizer_option(const std::string& key, const KeyTree& value);
    void optimizer_slot(const std::string& slot, const NamedAt& type);
    /// Rows of a table of learned positions; 0: the model has none.
    [[nodiscard]] std::int64_t learned_positions() const;
    void choose_kernel(OpKind op, const NamedAt& given);
    void stated_term(const StatedTerm& stated);

    void assume(std::string id, std::string text, std::string_view source);
    void warn(std::string id, std::string text);

    /// "did you mean 'x'?", or where to find the names.
    template <class Row>
    static std::string hint_for(const Table<Row>& table, std::string_view name, std::string_view list) {
        const std::string_view near = table.closest(name);
        return near.empty() ? fmt::format("membudget list {} prints them", list)
                            : fmt::format("did you mean '{}'?", near);
    }
    /// The row `name`, or null after a diagnostic at `pointer`.
    template <class Row>
    const Row* find_row(const Table<Row>& table, std::string_view name, std::string_view pointer,
                        std::string_view what, std::string_view list) {
        if (const Row* row = table.find(name)) return row;
        problems_.invalid(pointer, fmt::format("expected {}; got '{}'", what, name),
                          hint_for(table, name, list));
        return nullptr;
    }

    const Spec& spec_;
    const ResolveInputs& inputs_;
    Job job_;
    Diagnostics problems_;
    const KeyTree* config_ = nullptr;  ///< the model's config, from wherever it came
    KeyTree own_config_;               ///< where it came from the spec or the catalogue
};

}  // namespace membudget
