// A step read event by event; see ledger.hpp.

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "membudget/ledger.hpp"

namespace membudget {

namespace {

/// Bytes that a copy of `node` leaves behind.
std::int64_t net_of(const StepNode& node) {
    std::int64_t sum = 0;
    for (const Event& event : node.events) sum = detail::checked_add(sum, change_of(event));
    for (const StepNode& child : node.children)
        sum = detail::checked_add(sum, detail::checked_mul(child.repeat, net_of(child)));
    return sum;
}

/// Goes through a step's tree and counts micro-batches and layers on the way.
class Walk {
public:
    Walk(MicroBatches which, const StretchVisitor& visit) : which_(which), visit_(visit) {}

    void node(const StepNode& node, std::int64_t copy) {
        const bool once = node.micro_batch && which_ == MicroBatches::distinct && net_of(node) == 0;
        const std::int64_t walked = once ? std::min<std::int64_t>(node.repeat, 1) : node.repeat;
        if (once) alike_ = node.repeat;
        if (node.micro_batch) inside_ = true;
        for (std::int64_t i = 0; i < walked; ++i) {
            const std::int64_t inner = node.micro_batch || node.repeat == 1 ? copy : i;
            for (const StepNode& child : node.children) this->node(child, inner);
            if (node.children.empty())
                visit_({&node, node.first_copy + inner * node.copy_step,
                        inside_ ? micro_batch_ : kNoMicroBatch, alike_});
            if (node.micro_batch) ++micro_batch_;
        }
        if (node.micro_batch) {
            micro_batch_ += node.repeat - walked;
            inside_ = false;
        }
        if (once) alike_ = 1;
    }

private:
    const MicroBatches which_;
    const StretchVisitor& visit_;
    std::int64_t micro_batch_ = 0;
    std::int64_t alike_ = 1;
    bool inside_ = false;
};

/// Prefix of the section that holds the block: "model.layers.{}.".
std::string_view prefix_of(const Model& model, int block) {
    for (const Section& section : model.sections)
        if (std::find(section.pattern.begin(), section.pattern.end(), block) !=
            section.pattern.end())
            return section.prefix;
    return {};
}

/// The block and the op, without the layer: "decoder layer mlp.down_proj".
std::string general_name(const Timeline& timeline, int block_index, std::uint16_t op) {
    if (timeline.model == nullptr || block_index < 0 || op == kNoOp) return "";
    const Block& block = timeline.model->blocks[static_cast<std::size_t>(block_index)];
    return op < block.ops.size() ? block.name + " " + block.ops[op].name : block.name;
}

/// Where an op's name and a phase meet what the user asked for.
struct Wanted {
    std::optional<Phase> phase;
    std::string op;  ///< empty: any
};

Wanted parse_wanted(std::string_view when) {
    Wanted out;
    if (when == "peak") return out;
    const std::string_view head = when.substr(0, when.find(':'));
    for (const Phase phase : kPhases)
        if (name_of(phase) == head) out.phase = phase;
    if (!out.phase)
        out.op = when;
    else if (head.size() < when.size())
        out.op = when.substr(head.size() + 1);
    return out;
}

/// Finds ops by name without making a name for every event.
class OpFilter {
public:
    OpFilter(const Timeline& timeline, std::string op) : timeline_(timeline), op_(std::move(op)) {}

    /// Index of the wanted op in the stretch's block, or `kNoOp`.
    std::uint16_t in(const Stretch& stretch) const {
        const int index = stretch.leaf->block;
        if (timeline_.model == nullptr || index < 0) return kNoOp;
        const Block& block = timeline_.model->blocks[static_cast<std::size_t>(index)];
        for (std::size_t i = 0; i < block.ops.size(); ++i)
            if (op_.ends_with(block.ops[i].name) &&
                op_name(timeline_.model.get(), *stretch.leaf, stretch.layer,
                        static_cast<std::uint16_t>(i)) == op_)
                return static_cast<std::uint16_t>(i);
        return kNoOp;
    }

private:
    const Timeline& timeline_;
    const std::string op_;
};

/// A tensor (or equal ones) that an event allocated and none has freed yet.
struct Holding {
    Event event;
    int block = -1;
    std::int64_t layer = 0;
    const char* pass = "";
    std::int64_t bytes = 0, rounding = 0;  ///< of all copies that are left
    std::int64_t copies = 0;
    bool reported = false;   ///< live at the instant that is asked about
};

/// Tensors that are live, matched with the events that free them. Within one block's tape alloc and
/// free carry the same labels; what crosses from one tape to another (a block's output, a gradient
/// that becomes an array's part) is matched by term and size, the latest first.
class Holdings {
public:
    void apply(const Event& event, const Stretch& stretch) {
        if (event.bytes > 0)
            held_.push_back({event, stretch.leaf->block, stretch.layer, stretch.leaf->pass,
                             event.bytes * event.count, std::int64_t{event.rounding} * event.count, event.count,
                             false});
        else
            free(event, stretch);
    }
    [[nodiscard]] std::vector<Holding>& all() { return held_; }

    /// Called for what goes of a tensor of the instant.
    std::function<void(const Holding& held, std::int64_t copies, std::int64_t bytes)> freed;

private:
    [[nodiscard]] static int likeness(const Holding& held, const Event& event, const Stretch& stretch) {
        if (held.event.term != event.term) return 0;
        const bool size = held.event.bytes == -event.bytes;
        if (!size) return 1;
        if (std::string_view(held.event.label.what) != event.label.what) return 2;
        const bool same_op = held.event.label.op == event.label.op &&
                             held.block == stretch.leaf->block && held.layer == stretch.layer;
        return same_op && held.event.storage == event.storage ? 5 : same_op ? 4 : 3;
    }

    void free(const Event& event, const Stretch& stretch) {
        std::int64_t left = -event.bytes * event.count;
        while (left > 0 && !held_.empty()) {
            std::size_t best = held_.size();
            int best_likeness = 0;
            for (std::size_t i = held_.size(); i-- > 0 && best_likeness < 5;) {
                const int like = likeness(held_[i], event, stretch);
                if (like <= best_likeness) continue;
                best = i;
                best_likeness = like;
            }
            if (best == held_.size()) return;
            Holding& held = held_[best];
            const std::int64_t gone = std::min(left, held.bytes);
            const std::int64_t copies =
                gone == held.bytes ? held.copies : std::min(held.copies, gone / held.event.bytes);
            if (held.reported && freed) freed(held, copies, gone);
            const std::int64_t rounded = gone == held.bytes ? held.rounding
                                                            : held.event.rounding * copies;
            left -= gone;
            held.bytes -= gone;
            held.rounding -= rounded;
            held.copies -= copies;
            if (held.bytes == 0) held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(best));
        }
    }

    std::vector<Holding> held_;
};

}  // namespace

Timeline make_timeline(const Job& job) { return {job.model, simulate_step(job)}; }

void for_each_stretch(const Timeline& timeline, MicroBatches which, const StretchVisitor& visit) {
    Walk(which, visit).node(timeline.step.root, 0);
}

std::int64_t count_events(const Timeline& timeline, MicroBatches which) {
    std::int64_t count = 0;
    for_each_stretch(timeline, which, [&](const Stretch& stretch) {
        count += static_cast<std::int64_t>(stretch.leaf->events.size());
    });
    return count;
}

std::string op_name(const Model* model, const StepNode& leaf, std::int64_t layer,
                    std::uint16_t op) {
    if (model == nullptr || leaf.block < 0 || op == kNoOp) return "";
    const Block& block = model->blocks[static_cast<std::size_t>(leaf.block)];
    if (op >= block.ops.size()) return block.name;
    std::string name(prefix_of(*model, leaf.block));
    const std::size_t hole = name.find("{}");
    if (hole != std::string::npos) name.replace(hole, 2, std::to_string(layer));
    return name + block.ops[op].name;
}

std::optional<Instant> find_instant(const Timeline& timeline, std::string_view when) {
    const Wanted wanted = parse_wanted(when);
    const OpFilter filter(timeline, wanted.op);
    std::optional<Instant> best;
    std::uint16_t during = kNoOp;
    std::int64_t live = 0;
    std::int64_t index = 0;
    for_each_stretch(timeline, MicroBatches::distinct, [&](const Stretch& stretch) {
        const bool phase = !wanted.phase || stretch.leaf->phase == *wanted.phase;
        const std::uint16_t op = phase && !wanted.op.empty() ? filter.in(stretch) : kNoOp;
        // A phase in which nothing happens has an instant too: what was live before.
        if (phase && wanted.op.empty() && stretch.leaf->events.empty() &&
            (!best || Bytes(live) > best->live))
            best = Instant{index - 1, stretch, {}, Bytes(live)};
        for (const Event& event : stretch.leaf->events) {
            live = detail::checked_add(live, change_of(event));
            const bool asked = phase && (wanted.op.empty() || (op != kNoOp && event.during == op));
            if (asked && (!best || Bytes(live) > best->live)) {
                best = Instant{index, stretch, {}, Bytes(live)};
                during = event.during;
            }
            ++index;
        }
    });
    if (best) best->op = op_name(timeline.model.get(), *best->stretch.leaf, best->stretch.layer, during);
    return best;
}

std::vector<LiveTensor> live_at(const Timeline& timeline, const Instant& instant) {
    Holdings holdings;
    using Key = std::tuple<TermId, std::string, std::string_view, std::string_view, std::string>;
    std::map<Key, LiveTensor> rows;
    const auto add = [&](const Holding& held, std::int64_t copies, std::int64_t bytes,
                         std::int64_t rounding, const std::string& freed_by) {
        const Event& event = held.event;
        std::string op = general_name(timeline, held.block, event.label.op);
        LiveTensor& row = rows[{event.term, op, event.label.what, held.pass, freed_by}];
        if (row.term.empty()) {
            row.term = timeline.step.terms.path(event.term);
            row.op = std::move(op);
            row.what = event.label.what;
            row.copies = 0;
            row.made_in = held.pass;
            row.freed_by = freed_by;
        }
        row.copies += copies;
        row.bytes += Bytes(bytes);
        row.rounding += Bytes(rounding);
    };
    std::int64_t index = 0;
    std::string by;
    holdings.freed = [&](const Holding& held, std::int64_t copies, std::int64_t bytes) {
        add(held, copies, bytes, bytes == held.bytes ? held.rounding : held.event.rounding * copies, by);
    };
    for_each_stretch(timeline, MicroBatches::distinct, [&](const Stretch& stretch) {
        for (const Event& event : stretch.leaf->events) {
            if (index > instant.event && event.bytes < 0) {
                const std::string op = general_name(timeline, stretch.leaf->block, event.during);
                const std::string_view pass = stretch.leaf->pass;
                by = pass == "stated" ? "the end of its phase"
                     : op.empty()     ? std::string(pass)
                                      : fmt::format("{} of {}", pass, op);
            }
            holdings.apply(event, stretch);
            if (index++ == instant.event)
                for (Holding& held : holdings.all()) held.reported = true;
        }
    });
    for (const Holding& held : holdings.all())
        if (held.reported) add(held, held.copies, held.bytes, held.rounding, "");

    std::vector<LiveTensor> out;
    for (auto& [key, row] : rows) out.push_back(std::move(row));
    std::stable_sort(out.begin(), out.end(), [](const LiveTensor& a, const LiveTensor& b) {
        if (a.bytes != b.bytes) return a.bytes > b.bytes;
        return std::tie(a.term, a.op, a.what, a.freed_by) <
               std::tie(b.term, b.op, b.what, b.freed_by);
    });
    return out;
}

}  // namespace membudget
