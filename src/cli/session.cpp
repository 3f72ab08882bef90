#include "cli/session.hpp"

// The virtual functions of CLI::Config and CLI::Formatter are defined in headers of their own.
#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "cli/help.hpp"

namespace membudget::cli {
namespace {

/// Options of `app`, as they are typed.
std::vector<std::string> option_names(const CLI::App& app) {
    std::vector<std::string> out;
    for (const CLI::Option* option : app.get_options())
        for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
    return out;
}

/// What is wrong with the arguments that no option or positional took.
Diagnostics unknown_arguments(const CLI::App& app, const std::vector<std::string>& extras) {
    Diagnostics out;
    const auto known = option_names(app);
    const std::vector<std::string_view> names(known.begin(), known.end());
    const bool any_option = std::any_of(extras.begin(), extras.end(),
                                        [](const auto& extra) { return extra.starts_with('-'); });
    for (const std::string& extra : extras) {
        const bool option = extra.starts_with('-') && extra != "-";
        // The value of an unknown option is no mistake of its own.
        if (any_option && !option) continue;
        const std::string name = option ? extra.substr(0, extra.find('=')) : extra;
        std::string hint = option ? did_you_mean(name, names) : "";
        if (hint.empty()) hint = fmt::format("see `membudget {} --help`", app.get_name());
        out.invalid("", fmt::format("{} '{}'", option ? "unknown option" : "unexpected argument", name),
                    std::move(hint));
    }
    return out;
}

Diagnostics diagnostics_of(const CLI::App& app, const CLI::ParseError& error) {
    std::string message = error.what();
    // CLI11 names the option first: "--batch: 1 required N missing".
    if (error.get_name() == "ArgumentMismatch")
        message = fmt::format("option {} needs a value", message.substr(0, message.find(':')));
    return usage_error(std::move(message), fmt::format("see `membudget {} --help`", app.get_name()));
}

}  // namespace

Session::Session(std::string_view command, Streams& streams, std::string footer)
    : command_(command), streams_(streams) {
    const Command* row = commands().find(command);
    MEMBUDGET_ENSURE(row != nullptr, "a session belongs to a row of the commands");
    app_.name(command_);
    app_.description(std::string(row->doc));
    app_.footer(std::move(footer));
    app_.set_help_flag();  // ours comes last
    app_.allow_extras();
}

void Session::add_common_options() {
    app_.add_option("-f,--format", format_,
                    fmt::format("{} (default: text)", fmt::join(formats_of(command_), ", ")))
        ->type_name("NAME")
        ->group("Output");
    app_.add_option("-o,--output", output_,
                    "write the report to FILE, replaced only when all went well; - is stdout")
        ->type_name("FILE")
        ->group("Output");
    app_.add_option("--color", colour_, "auto, always or never; NO_COLOR is honoured")
        ->type_name("WHEN")
        ->group("Output");
    app_.set_help_flag("-h,--help", "print this help")->group("Output");
}

std::optional<ExitCode> Session::parse(Arguments arguments) {
    add_common_options();
    writer_ = writers().find(asks_for_json(arguments) ? "json" : "text");
    try {
        std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
        app_.parse(reversed);
    } catch (const CLI::CallForHelp&) {
        streams_.out << help_text(app_);
        return ExitCode::done;
    } catch (const CLI::ParseError& error) {
        return fail(diagnostics_of(app_, error));
    }
    if (const auto extras = app_.remaining(); !extras.empty())
        return fail(unknown_arguments(app_, extras));

    const Writer* writer = writers().find(format_);
    if (writer == nullptr)
        return fail_usage(fmt::format("unknown format '{}'", format_),
                          did_you_mean(format_, formats_of(command_)));
    if (!writes(*writer, command_))
        return fail_usage(fmt::format("expected a format of {} ({}); got '{}'", command_,
                                      fmt::join(formats_of(command_), ", "), format_),
                          fmt::format("`membudget {}` writes it",
                                      writer->commands.substr(0, writer->commands.find(' '))));
    writer_ = writer;
    if (colour_ == "always" || colour_ == "never")
        streams_.colour = colour_ == "always";
    else if (colour_ != "auto")
        return fail_usage(fmt::format("expected --color auto, always or never; got '{}'", colour_));
    if (output_ == "-") return std::nullopt;
    auto file = OutputFile::open(output_);
    if (!file) return fail(file.errors());
    file_ = std::move(*file);
    return std::nullopt;
}

ExitCode Session::fail(const Diagnostics& errors) {
    print(errors, streams_.err);
    if (writer_ != nullptr && writer_->name == "json") {
        ReportData data;
        data.command = command_;
        data.errors = errors;
        streams_.out << writer_->write(data, {});
    }
    return errors.any_invalid() ? ExitCode::bad_input : ExitCode::unsupported;
}

ExitCode Session::fail_usage(std::string message, std::string hint) {
    if (hint.empty()) hint = fmt::format("see `membudget {} --help`", command_);
    return fail(usage_error(std::move(message), std::move(hint)));
}

ExitCode Session::finish(const ReportData& data, ExitCode code, std::string_view verdict) {
    const bool colour = streams_.colour && !file_.is_open();
    const std::string text = writer_->write(data, {.colour = colour, .width = streams_.width});
    if (code == ExitCode::over && !verdict.empty() && (file_.is_open() || writer_->name != "text"))
        streams_.err << verdict << '\n';
    if (!file_.is_open()) {
        streams_.out << text;
        return code;
    }
    if (const Diagnostics errors = file_.commit(text); !errors.empty()) return fail(errors);
    return code;
}

void print(const Diagnostics& errors, std::ostream& to) {
    // A key or a file name may hold what would steer the terminal.
    const auto shown = [](const std::string& name) {
        if (!has_control_characters(name)) return name;
        const std::string quoted = in_quotes(name, name.size());
        return quoted.substr(1, quoted.size() - 2);
    };
    for (const Diagnostic& error : errors.list()) {
        to << "error: ";
        if (!error.file.empty()) to << shown(error.file) << ": ";
        if (!error.pointer.empty()) to << shown(error.pointer) << ": ";
        to << error.message << '\n';
        if (!error.hint.empty()) to << "hint: " << error.hint << '\n';
    }
}

Diagnostics usage_error(std::string message, std::string hint) {
    Diagnostics out;
    out.invalid("", std::move(message), std::move(hint));
    return out;
}

std::string misuse_of_standard_input(const std::vector<std::string>& files) {
    return std::count(files.begin(), files.end(), "-") > 1 ? "standard input can be read only once" : "";
}

bool asks_for_json(Arguments arguments) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::string& argument = arguments[i];
        if (argument == "--format=json" || argument == "-fjson") return true;
        if ((argument == "--format" || argument == "-f") && i + 1 < arguments.size() &&
            arguments[i + 1] == "json")
            return true;
    }
    return false;
}

ExitCode exit_code_for(Verdict verdict, bool strict) {
    if (verdict == Verdict::over) return ExitCode::over;
    return verdict == Verdict::uncertain && strict ? ExitCode::over : ExitCode::done;
}

}  // namespace membudget::cli
