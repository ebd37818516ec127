#include "daemon/core/store_window.h"

#include <gtest/gtest.h>

namespace p2pw {
namespace {

TEST(StoreWindow, IsFullOnceAndHasRoomOnceHalfOfItIsLeft) {
  StoreWindow window;
  EXPECT_FALSE(window.taken(StoreWindow::kFull));
  EXPECT_TRUE(window.taken(1));
  EXPECT_FALSE(window.taken(100)) << "it is known already";
  EXPECT_FALSE(window.stored(101));
  EXPECT_FALSE(window.stored(StoreWindow::kFull / 2 - 1));
  EXPECT_TRUE(window.stored(1));
  EXPECT_FALSE(window.stored(StoreWindow::kFull / 2)) << "it was not full";
  EXPECT_EQ(window.waiting(), 0u);
}

// A bundle may be larger than the window.
TEST(StoreWindow, WhatIsLargerThanAllOfItIsTakenAndWaitedFor) {
  StoreWindow window;
  EXPECT_TRUE(window.taken(StoreWindow::kFull * 4));
  EXPECT_TRUE(window.stored(StoreWindow::kFull * 4));
}

}  // namespace
}  // namespace p2pw
