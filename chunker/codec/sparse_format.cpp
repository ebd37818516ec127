#include "chunker/codec/sparse_format.h"

namespace p2pw::codec {
namespace {

void put_count(std::uint64_t count, HeadCoding& coding, BitWriter& out) {
  out.put_golomb(count, coding.count_order());
  coding.saw_count(count);
}
bool get_count(BitReader& in, HeadCoding& coding, std::uint64_t& count) {
  if (!in.get_golomb(coding.count_order(), count)) return false;
  coding.saw_count(count);
  return true;
}

}  // namespace

void put_class_head(const ClassHead& head, HeadCoding& coding, BitWriter& out) {
  out.reserve(64);
  out.put(static_cast<std::uint64_t>(head.positions), 2);
  if (head.positions != Positions::none) {
    if (head.positions == Positions::unchanged) put_count(head.changed, coding, out);
    put_count(head.gap_tokens, coding, out);
    if (head.gap_tokens != 0) {
      const int difference = static_cast<int>(head.pace) - static_cast<int>(coding.expected_pace());
      out.put_golomb(static_cast<std::uint64_t>(difference < 0 ? -2 * difference - 1 : 2 * difference), kPaceOrder);
      coding.saw_pace(head.pace);
    }
    out.reserve(64);
    out.put(static_cast<std::uint64_t>(head.steps), 2);
    if (head.carries_table()) head.table.put(out);
  }
  coding.next_class();
}

bool get_class_head(BitReader& in, HeadCoding& coding, ClassHead& head) {
  head = {};
  if (in.left() < 2) return false;
  head.positions = static_cast<Positions>(in.get(2));
  if (head.positions > Positions::unchanged) return false;
  if (head.positions != Positions::none) {
    if (head.positions == Positions::unchanged && !get_count(in, coding, head.changed)) return false;
    if (!get_count(in, coding, head.gap_tokens)) return false;
    if (head.gap_tokens != 0) {
      std::uint64_t folded = 0;
      if (!in.get_golomb(kPaceOrder, folded) || folded > 2 * kMaxPace) return false;
      const int half = static_cast<int>(folded / 2);
      const int pace = static_cast<int>(coding.expected_pace()) + (folded % 2 != 0 ? -half - 1 : half);
      if (pace < static_cast<int>(kMinPace) || pace > static_cast<int>(kMaxPace)) return false;
      head.pace = static_cast<unsigned>(pace);
      coding.saw_pace(head.pace);
    }
    if (in.left() < 2) return false;
    head.steps = static_cast<Steps>(in.get(2));
    if (head.carries_table() && !StepTable::get(in, head.table)) return false;
  }
  coding.next_class();
  return true;
}

}  // namespace p2pw::codec
