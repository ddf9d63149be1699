"use strict";

const { ControllerMethods } = require("./store-controllers");

class RunMethods extends ControllerMethods {}

module.exports = { RunMethods };
