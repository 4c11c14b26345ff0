// Includes all headers for building models.
#pragma once
#include "athanor/nn/attention.h"
#include "athanor/nn/checkpoint.h"
#include "athanor/nn/conv.h"
#include "athanor/nn/function.h"
#include "athanor/nn/gpt2.h"
#include "athanor/nn/init.h"
#include "athanor/nn/linear.h"
#include "athanor/nn/models.h"
#include "athanor/nn/module.h"
#include "athanor/nn/norm.h"
#include "athanor/nn/resnet.h"
#include "athanor/nn/sequential.h"
