#include "cli/frame.h"

int main(int argc, char** argv) { return p2pw::run_command_line(argc, argv); }
