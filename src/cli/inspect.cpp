#include <fmt/format.h>

#include "cli/job_flags.hpp"
#include "cli/session.hpp"

namespace membudget::cli {
namespace {

constexpr const char* kFooter =
    "MODEL is a model's config.json, a spec, a name (`membudget list models`), or - for\n"
    "standard input. The json and csv formats list every tensor. A weight file may be a\n"
    "safetensors file, its index, or a GGUF file: only its header is read.\n\n"
    "Examples:\n"
    "  membudget inspect llama-3.1-8b\n"
    "  membudget inspect config.json --architecture LlamaForSequenceClassification\n"
    "  membudget inspect config.json --weights model.safetensors.index.json\n"
    "  membudget inspect config.json --format csv";

Result<Document> read(const std::string& path, const std::string& architecture) {
    auto document = read_document(path);
    if (!document || architecture.empty()) return document;
    return with_patch(*document, patch_at("/model/architecture", KeyTree(architecture)));
}

}  // namespace

ExitCode run_inspect(Arguments arguments, Streams& streams) {
    std::string path, architecture;
    std::vector<std::string> weights;
    Session session("inspect", streams, kFooter);
    session.app().add_option("MODEL", path, "a model's config.json, a spec, or a name");
    session.app().add_option("--architecture", architecture,
                             "class to build instead of the config's")
        ->type_name("NAME")->group("The model");
    session.app().add_option("--weights", weights,
                             "check the header of this weight file against the model; may be repeated")
        ->type_name("FILE")->group("The model")->expected(1)->multi_option_policy(
            CLI::MultiOptionPolicy::TakeAll);
    if (const auto exit = session.parse(arguments)) return *exit;
    if (path.empty()) return session.fail_usage("inspect needs a MODEL");

    const auto document = read(path, architecture);
    if (!document) return session.fail(document.errors());
    const auto model = resolve_document_model(*document);
    if (!model) return session.fail(model.errors());

    std::vector<std::string> files = weight_files(*document);
    files.insert(files.end(), weights.begin(), weights.end());
    auto checked = check_weight_files(*model, files);
    if (!checked) return session.fail(checked.errors());

    ReportData data;
    data.command = "inspect";
    data.inspection = Inspection{.name = display_name(*document), .model = &*model,
                                 .weights = std::move(*checked)};
    return session.finish(data);
}

}  // namespace membudget::cli
