#include "report/events.hpp"

namespace membudget::report {

void for_each_event(const Timeline& timeline, const std::function<void(const EventRecord&)>& visit) {
    EventRecord record;
    for_each_stretch(timeline, MicroBatches::all, [&](const Stretch& stretch) {
        record.phase = stretch.leaf->phase;
        record.pass = stretch.leaf->pass;
        record.micro_batch = stretch.micro_batch;
        const auto name = [&](std::uint16_t op) {
            return op_name(timeline.model.get(), *stretch.leaf, stretch.layer, op);
        };
        for (const Event& event : stretch.leaf->events) {
            record.op = name(event.during);
            record.term = timeline.step.terms.path(event.term);
            record.made_by = name(event.label.op);
            record.tensor = event.label.what;
            record.bytes = event.bytes;
            record.rounding = event.rounding;
            record.copies = event.count;
            record.live = detail::checked_add(record.live, change_of(event));
            visit(record);
            ++record.index;
        }
    });
}

}  // namespace membudget::report
