#include "daemon/swarm/have_gate.h"

#include <gtest/gtest.h>

#include <set>

namespace p2pw {
namespace {

TEST(HaveGate, TheFirstAnnouncementIsHeldBackTheSecondIsNot) {
  HaveGate gate(4);
  EXPECT_FALSE(gate.opens(ChunkIndex(1), false, 5));
  EXPECT_TRUE(gate.opens(ChunkIndex(1), false, 5)) << "of another neighbour";
  EXPECT_FALSE(gate.opens(ChunkIndex(2), false, 5));
  EXPECT_TRUE(gate.opens(ChunkIndex(2), true, 5)) << "of the same one";
}

TEST(HaveGate, WithFewNeighboursNothingIsHeldBack) {
  HaveGate gate(4);
  EXPECT_TRUE(gate.opens(ChunkIndex(0), false, HaveGate::kFan));
}

TEST(HaveGate, WhatAnArrivingNeighbourHasIsKnown) {
  HaveGate gate(4);
  gate.known(ChunkIndex(3));
  EXPECT_TRUE(gate.opens(ChunkIndex(3), false, 9));
  gate.known(ChunkIndex(77));
  gate.all_known();
  EXPECT_TRUE(gate.opens(ChunkIndex(0), false, 9));
}

TEST(HaveGate, NumbersFromOutsideAreLibtorrentsToJudge) {
  HaveGate gate(4);
  EXPECT_TRUE(gate.opens(ChunkIndex(4), false, 9));
}

TEST(HaveGate, EverybodyIsToldFirstInTurn) {
  std::set<std::size_t> told;
  for (std::uint32_t chunk = 0; chunk < 7; ++chunk) {
    for (std::size_t i = 0; i < HaveGate::kFan; ++i) told.insert((HaveGate::first_told(ChunkIndex(chunk), 7) + i) % 7);
  }
  EXPECT_EQ(told.size(), 7u);
  EXPECT_EQ(HaveGate::first_told(ChunkIndex(5), 0), 0u);
}

}  // namespace
}  // namespace p2pw
